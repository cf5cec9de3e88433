// Proves embedding lookup in every stored format, gathers, periodic adds and sums of parts,
// exactly.
#include <memory>
#include <utility>
#include <vector>

#include "kernels/linear.h"
#include "kernels/op_testing.h"
#include "kernels/rows.h"

namespace hs::test {
namespace {

// The value of an IEEE binary16 from its definition.
double half_value(uint16_t h) {
  const int exponent = (h >> 10) & 31;
  const double mantissa = (h & 1023) / 1024.0;
  const double sign = (h >> 15) != 0 ? -1 : 1;
  if (exponent == 31) return h & 1023 ? NAN : sign * HUGE_VAL;
  return exponent == 0 ? sign * std::ldexp(mantissa, -14)
                       : sign * std::ldexp(1 + mantissa, exponent - 15);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rows_tests)

BOOST_AUTO_TEST_CASE(embedding_rows_are_copied_and_minus_one_leaves_the_row) {
  at_every_level([](Team& team) {
    for (int64_t dim : {1, 7, 64, 131}) {
      const auto table = random_floats(static_cast<size_t>(10 * dim), 1);
      std::vector<uint16_t> narrow;
      for (float v : table) narrow.push_back(to_bf16(v));
      const int32_t ids[] = {9, -1, 0, 3, 3};
      for (DType dtype : {DType::kF32, DType::kBF16}) {
        std::vector<float> y(static_cast<size_t>(5 * dim), 42.0F);
        const void* data =
            dtype == DType::kF32 ? static_cast<const void*>(table.data()) : narrow.data();
        embed_cpu({data, dtype, ids, y.data(), 5, dim}, team);
        for (int64_t i = 0; i < 5 * dim; ++i) {
          const int32_t id = ids[i / dim];
          const auto from = static_cast<size_t>(id * dim + i % dim);
          const float value = id < 0                 ? 42.0F
                              : dtype == DType::kF32 ? table[from]
                                                     : from_bf16(narrow[from]);
          BOOST_TEST(y[static_cast<size_t>(i)] == value);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(every_float16_is_widened_exactly) {
  at_every_level([](Team& team) {
    std::vector<uint16_t> table(65536);
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<uint16_t>(i);
    // One column too few a row would misplace everything, so an odd width is checked with a tail as
    // well.
    for (int64_t dim : {64, 31}) {
      const int64_t rows = 65536 / dim;
      std::vector<int32_t> ids(static_cast<size_t>(rows));
      for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
      std::vector<float> y(static_cast<size_t>(rows * dim));
      embed_cpu({table.data(), DType::kF16, ids.data(), y.data(), rows, dim}, team);
      int wrong = 0;
      for (size_t i = 0; i < y.size(); ++i) {
        const double want = half_value(table[i]);
        wrong += std::isnan(want) ? !std::isnan(y[i]) : double{y[i]} != want;
      }
      BOOST_TEST(wrong == 0);
    }
  });
}

BOOST_AUTO_TEST_CASE(rows_of_a_packed_weight_are_those_that_were_packed) {
  at_every_level([](Team& team) {
    for (int64_t dim : {1, 7, 32, 131}) {
      for (int64_t rows : {5, 16, 35}) {
        for (DType dtype : {DType::kF32, DType::kBF16}) {
          auto table = random_floats(static_cast<size_t>(rows * dim), 5);
          if (dtype == DType::kBF16)
            for (float& v : table) v = from_bf16(to_bf16(v));
          std::vector<float> packed(packed_weight_bytes(dtype, rows, dim) / 4 + 16);
          void* data = packed.data();
          size_t room = packed.size() * 4;
          std::align(64, packed_weight_bytes(dtype, rows, dim), data, room);
          pack_weight_rows_cpu(data, dtype, rows, dim, 0, rows, table.data(), DType::kF32, team);
          const auto last = static_cast<int32_t>(rows - 1);
          const int32_t ids[] = {last, -1, 0, 3, 3};
          std::vector<float> y(static_cast<size_t>(5 * dim), 42.0F);
          embed_packed_cpu({{dtype, rows, dim, data}, ids, y.data(), 5}, team);
          int wrong = 0;
          for (int64_t i = 0; i < 5 * dim; ++i) {
            const int32_t id = ids[i / dim];
            const float want = id < 0 ? 42.0F : table[static_cast<size_t>(id * dim + i % dim)];
            wrong += y[static_cast<size_t>(i)] != want;
          }
          BOOST_TEST(wrong == 0);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(gather_follows_the_index_and_the_stride) {
  at_every_level([](Team& team) {
    const int64_t dim = 37, stride = 50;
    const auto x = random_floats(static_cast<size_t>(20 * stride), 2);
    std::vector<int32_t> index;
    for (int i = 0; i < 900; ++i) index.push_back((i * 7) % 20);
    std::vector<float> y(index.size() * dim);
    gather_rows_cpu({x.data(), index.data(), y.data(), 900, dim, stride}, team);
    int wrong = 0;
    for (int64_t i = 0; i < 900 * dim; ++i) {
      const int64_t from = index[static_cast<size_t>(i / dim)] * stride + i % dim;
      wrong += y[static_cast<size_t>(i)] != x[static_cast<size_t>(from)];
    }
    BOOST_TEST(wrong == 0);
  });
}

BOOST_AUTO_TEST_CASE(added_rows_repeat_with_the_period) {
  at_every_level([](Team& team) {
    const int64_t dim = 45, period = 577, rows = 2 * 577;
    const auto table = random_floats(static_cast<size_t>(period * dim), 3);
    const auto before = random_floats(static_cast<size_t>(rows * dim), 4);
    std::vector<float> y = before;
    add_rows_cpu({y.data(), table.data(), rows, dim, period}, team);
    int wrong = 0;
    for (size_t i = 0; i < y.size(); ++i) wrong += y[i] != before[i] + table[i % table.size()];
    BOOST_TEST(wrong == 0);
  });
}

// Sums of which another order would have other bits.
BOOST_AUTO_TEST_CASE(parts_are_added_up_in_their_order_before_they_are_added) {
  at_every_level([](Team& team) {
    for (const int64_t n_parts : {1, 2, 3, 6}) {
      for (const auto& [rows, dim] :
           {std::pair<int64_t, int64_t>{1, 1}, {3, 7}, {5, 64}, {40, 1031}}) {
        const auto n = static_cast<size_t>(rows * dim);
        std::vector<std::vector<float>> parts;
        std::vector<const float*> pointers;
        for (int64_t p = 0; p < n_parts; ++p) {
          parts.push_back(random_floats(n, static_cast<uint32_t>(10 + p), -1e3F, 1e3F));
          pointers.push_back(parts.back().data());
        }
        std::vector<float> y = random_floats(n, 1);
        const std::vector<float> before = y;
        add_parts_cpu({pointers.data(), n_parts, y.data(), rows, dim}, team);
        size_t wrong = 0;
        for (size_t i = 0; i < n; ++i) {
          float sum = parts[0][i];
          for (size_t p = 1; p < parts.size(); ++p) sum += parts[p][i];
          wrong += y[i] == before[i] + sum ? 0 : 1;
        }
        BOOST_TEST(wrong == 0U, n_parts << " parts of " << rows << " x " << dim);
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
