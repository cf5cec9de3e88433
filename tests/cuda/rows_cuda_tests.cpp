// Proves moves of rows on the emulated GPU exact, and sums rounded once: dtypes, widths, strides,
// rows left alone.
#include "cuda/cuda_testing.h"
#include "kernels/rows_cuda.h"

namespace hs::test {
namespace {

constexpr int64_t kDims[] = {1, 6, 8, 100, 1032};

size_t at(int64_t row, int64_t stride, int64_t i) {
  return static_cast<size_t>(row * stride + i);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rows_cuda_tests)

BOOST_AUTO_TEST_CASE(embedding_converts_each_dtype_and_leaves_image_rows_alone) {
  under_every_schedule([] {
    for (const DType from : kDTypes) {
      for (const DType to : kDTypes) {
        for (const int64_t dim : kDims) {
          constexpr int64_t kVocab = 9;
          const std::vector<int32_t> ids = {3, -1, 8, 0, 3};
          const Values table(from, random_floats(at(kVocab, dim, 0), 21));
          const Values y(to, std::vector<float>(at(5, dim, 0), 96.0F));
          const DeviceArray<int32_t> device_ids(ids);
          BOOST_TEST(cuda::embed({.table_dtype = from,
                                  .dtype = to,
                                  .table = table.data(),
                                  .ids = device_ids.data(),
                                  .y = y.data(),
                                  .n_rows = 5,
                                  .dim = dim},
                                 nullptr) == cudaSuccess);
          Values rounded(to, table.get());
          int wrong = 0;
          for (int64_t r = 0; r < 5; ++r) {
            const int32_t id = ids[static_cast<size_t>(r)];
            for (int64_t i = 0; i < dim; ++i) {
              const float wanted = id < 0 ? 96.0F : rounded.get(at(id, dim, i));
              wrong += y.get(at(r, dim, i)) != wanted;
            }
          }
          BOOST_TEST(wrong == 0, "dim " << dim);
          BOOST_TEST(y.intact());
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(gathers_move_rows_exactly) {
  under_every_schedule([] {
    for (const DType dtype : kDTypes) {
      for (const int64_t dim : kDims) {
        const int64_t x_stride = dim + 8, y_stride = dim + (dim % 8 == 0 ? 16 : 1);
        const std::vector<int32_t> index = {4, 0, 5, 2};
        const Values x(dtype, random_floats(at(6, x_stride, 0), 22));
        const Values y(dtype, std::vector<float>(at(4, y_stride, 0), 96.0F));
        const DeviceArray<int32_t> on_device(index);
        BOOST_TEST(cuda::gather_rows({.dtype = dtype,
                                      .x = x.data(),
                                      .index = on_device.data(),
                                      .y = y.data(),
                                      .n_rows = 4,
                                      .dim = dim,
                                      .x_stride = x_stride,
                                      .y_stride = y_stride},
                                     nullptr) == cudaSuccess);
        std::vector<float> wanted(at(4, y_stride, 0), 96.0F);
        for (int64_t r = 0; r < 4; ++r) {
          for (int64_t i = 0; i < dim; ++i) {
            wanted[at(r, y_stride, i)] = x.get(at(index[static_cast<size_t>(r)], x_stride, i));
          }
        }
        BOOST_TEST(y.get() == wanted);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(without_an_index_rows_are_copied_in_order) {
  const Values x(DType::kBF16, random_floats(at(3, 12, 0), 33));
  const Values y(DType::kBF16, std::vector<float>(at(3, 9, 0), 96.0F));
  BOOST_TEST(
      cuda::gather_rows(
          {.x = x.data(), .y = y.data(), .n_rows = 3, .dim = 8, .x_stride = 12, .y_stride = 9},
          nullptr) == cudaSuccess);
  std::vector<float> wanted(y.size(), 96.0F);
  for (int64_t r = 0; r < 3; ++r) {
    for (int64_t i = 0; i < 8; ++i) wanted[at(r, 9, i)] = x.get(at(r, 12, i));
  }
  BOOST_TEST(y.get() == wanted);
}

BOOST_AUTO_TEST_CASE(rows_of_a_table_are_added_in_turn) {
  under_every_schedule([] {
    for (const DType dtype : kDTypes) {
      for (const int64_t dim : kDims) {
        const Values y(dtype, random_floats(at(7, dim, 0), 23));
        const Values table(dtype, random_floats(at(3, dim, 0), 24));
        std::vector<double> wanted;
        for (int64_t r = 0; r < 7; ++r) {
          for (int64_t i = 0; i < dim; ++i) {
            wanted.push_back(double{y.get(at(r, dim, i))} + double{table.get(at(r % 3, dim, i))});
          }
        }
        BOOST_TEST(cuda::add_rows({.dtype = dtype,
                                   .y = y.data(),
                                   .table = table.data(),
                                   .n_rows = 7,
                                   .dim = dim,
                                   .period = 3},
                                  nullptr) == cudaSuccess);
        BOOST_TEST(error_share(dtype, y.get(), wanted, 1e-7) <= 1);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(parts_are_added_up_and_rounded_once) {
  under_every_schedule([] {
    for (const DType dtype : kDTypes) {
      for (const int64_t dim : kDims) {
        const Values y(dtype, random_floats(at(3, dim, 0), 25));
        std::vector<double> wanted;
        for (const float v : y.get()) wanted.push_back(double{v});
        cuda::AddPartsParams p{.dtype = dtype, .y = y.data(), .n_rows = 3, .dim = dim};
        std::vector<Values> parts;
        parts.reserve(5);
        for (uint32_t part = 0; part < 5; ++part) {
          parts.emplace_back(dtype, random_floats(at(3, dim, 0), 26 + part));
          p.parts[p.n_parts++] = parts.back().data();
          for (size_t i = 0; i < wanted.size(); ++i) wanted[i] += double{parts.back().get(i)};
        }
        BOOST_TEST(cuda::add_parts(p, nullptr) == cudaSuccess);
        BOOST_TEST(error_share(dtype, y.get(), wanted, 3e-6) <= 1);
        p.n_parts = 0;
        BOOST_TEST(cuda::add_parts(p, nullptr) == cudaErrorInvalidValue);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(params_that_cannot_be_are_refused_and_no_rows_are_no_work) {
  BOOST_TEST(cuda::embed({.n_rows = 0, .dim = 4}, nullptr) == cudaSuccess);
  BOOST_TEST(cuda::embed({.n_rows = -1, .dim = 4}, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(cuda::gather_rows({.n_rows = 0, .dim = 4}, nullptr) == cudaSuccess);
  BOOST_TEST(cuda::gather_rows({.n_rows = 1, .dim = 0}, nullptr) == cudaErrorInvalidValue);
  BOOST_TEST(cuda::gather_rows({.dtype = DType::kI8, .n_rows = 1, .dim = 4}, nullptr) ==
             cudaErrorInvalidValue);
  BOOST_TEST(cuda::add_rows({.n_rows = 1, .dim = 4, .period = 0}, nullptr) ==
             cudaErrorInvalidValue);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
