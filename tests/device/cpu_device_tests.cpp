// Proves the CPU device: memory, copies, packed weights, and that each op reaches its kernel with
// the right shapes.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "device/cpu/cpu_ops.h"
#include "device/cpu/cpu_team.h"

namespace hs {
namespace {

std::unique_ptr<Device> make_device(int threads = 2) {
  Result<std::unique_ptr<Device>> device = make_cpu_device({.threads = threads});
  BOOST_REQUIRE(device.has_value());
  return std::move(*device);
}

Matrix matrix(std::vector<float>& values, int64_t rows, int64_t cols) {
  return {.data = values.data(), .rows = rows, .cols = cols, .stride = cols};
}

Vector vector(const std::vector<float>& values) {
  return {values.data(), static_cast<int64_t>(values.size())};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cpu_device_tests)

BOOST_AUTO_TEST_CASE(memory_is_zero_aligned_and_knows_its_device) {
  auto device = make_device();
  for (size_t bytes :
       {size_t{1}, size_t{1000}, (size_t{1} << 20) - 1, size_t{1} << 20, (size_t{3} << 20) + 5}) {
    Result<Buffer> buffer = device->allocate(bytes);
    BOOST_REQUIRE(buffer.has_value());
    BOOST_TEST(buffer->bytes() == bytes);
    BOOST_TEST((buffer->device() == device->id()));
    BOOST_TEST(reinterpret_cast<uintptr_t>(buffer->data()) % 64 == 0U);
    const auto* data = buffer->as<unsigned char>();
    size_t set = 0;
    for (size_t i = 0; i < bytes; ++i) set += data[i] != 0;
    BOOST_TEST(set == 0U);
    buffer->as<unsigned char>()[bytes - 1] = 7;
  }
  Result<Buffer> nothing = device->allocate(0);
  BOOST_REQUIRE(nothing.has_value());
  BOOST_TEST(nothing->bytes() == 0U);
}

BOOST_AUTO_TEST_CASE(more_memory_than_there_can_be_is_an_error) {
  auto device = make_device();
  for (size_t bytes : {SIZE_MAX, SIZE_MAX / 2}) {
    Result<Buffer> buffer = device->allocate(bytes);
    BOOST_REQUIRE(!buffer.has_value());
    BOOST_TEST((buffer.error().kind == ErrorKind::kResourceExhausted));
  }
}

// The team's own count tells, so the ops run on a team of the test's with the scratch that a device
// would have reserved.
BOOST_AUTO_TEST_CASE(scratch_reserved_for_a_weight_is_enough_for_its_ops) {
  auto packer = make_device();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const auto& [out_dim, in_dim, rows_max] :
         {std::array<int64_t, 3>{64, 64, 1}, {1000, 96, 64}, {48, 1500, 77}, {300, 40, 600}}) {
      const std::vector<float> stored(static_cast<size_t>(out_dim * in_dim), 0.5F);
      const WeightPart part{stored.data(), DType::kF32, out_dim};
      const auto weight = packer->pack_weight({&part, 1}, in_dim, dtype);
      BOOST_REQUIRE(weight.has_value());
      CpuTeam team({.threads = 3, .name = "test"});
      CpuOps ops(team);
      const CpuScratchBytes scratch = cpu_scratch_bytes(out_dim, in_dim, rows_max);
      team.reserve_scratch(scratch.first, scratch.other);
      const int64_t before = team.n_scratch_allocations();
      for (const int64_t rows : {int64_t{1}, rows_max / 2 + 1, rows_max}) {
        std::vector<float> x(static_cast<size_t>(rows * in_dim), 1);
        std::vector<float> y(static_cast<size_t>(rows * out_dim));
        ops.linear(matrix(x, rows, in_dim), weight->packed, {}, matrix(y, rows, out_dim),
                   Epilogue::kNone, false);
        BOOST_TEST(y.back() == 0.5F * static_cast<float>(in_dim));
        const std::vector<SamplingRow> settings(static_cast<size_t>(rows), {.n_logprobs = 5});
        std::vector<SampledToken> sampled(settings.size());
        ops.sample(matrix(y, rows, out_dim), out_dim, settings, sampled);
      }
      BOOST_TEST(team.n_scratch_allocations() == before);
    }
  }
}

BOOST_AUTO_TEST_CASE(options_that_cannot_be_met_are_errors) {
  for (const CpuDeviceOptions& options :
       {CpuDeviceOptions{.threads = -1}, CpuDeviceOptions{.threads = 100000},
        CpuDeviceOptions{.cores = {-1}}, CpuDeviceOptions{.cores = {1 << 20}},
        CpuDeviceOptions{.cores = {process_cores().front(), process_cores().front()}}}) {
    Result<std::unique_ptr<Device>> device = make_cpu_device(options);
    BOOST_REQUIRE(!device.has_value());
    BOOST_TEST((device.error().kind == ErrorKind::kInvalidArgument));
  }
}

BOOST_AUTO_TEST_CASE(a_device_has_the_threads_and_the_name_it_was_given) {
  Result<std::unique_ptr<Device>> device = make_cpu_device({.index = 3, .threads = 5});
  BOOST_REQUIRE(device.has_value());
  BOOST_TEST(to_string((*device)->id()) == "cpu:3");
  BOOST_TEST((*device)->description().starts_with("cpu:3: 5 threads, "));
  BOOST_TEST(((*device)->activation_dtype() == DType::kF32));
}

BOOST_AUTO_TEST_CASE(copies_arrive) {
  auto device = make_device();
  const std::array<int32_t, 3> there{1, -2, 3};
  std::array<int32_t, 3> back{};
  Result<Buffer> buffer = device->allocate(sizeof there);
  BOOST_REQUIRE(buffer.has_value());
  device->upload(there.data(), buffer->data(), sizeof there);
  device->download(buffer->data(), back.data(), sizeof back);
  BOOST_REQUIRE(device->sync().has_value());
  BOOST_TEST(there == back, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(weights_of_several_parts_become_one_matrix) {
  auto device = make_device();
  // Three parts of 5, 20 and 1 rows; row r is all r.
  constexpr int64_t kIn = 9, kOut = 26;
  std::vector<float> values;
  for (int64_t row = 0; row < kOut; ++row)
    values.insert(values.end(), kIn, static_cast<float>(row));
  const std::array<WeightPart, 3> parts{{{values.data(), DType::kF32, 5},
                                         {values.data() + 5 * kIn, DType::kF32, 20},
                                         {values.data() + 25 * kIn, DType::kF32, 1}}};
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    Result<OwnedWeight> weight = device->pack_weight(parts, kIn, dtype);
    BOOST_REQUIRE(weight.has_value());
    BOOST_TEST(weight->packed.out_dim == kOut);
    BOOST_TEST(weight->packed.data == weight->buffer.data());
    std::vector<float> x(2 * kIn, 1.0F);
    std::vector<float> y(2 * kOut);
    device->ops().linear(matrix(x, 2, kIn), weight->packed, {}, matrix(y, 2, kOut));
    size_t wrong = 0;
    for (int64_t i = 0; i < 2 * kOut; ++i) {
      wrong += y[static_cast<size_t>(i)] != static_cast<float>(kIn * (i % kOut));
    }
    BOOST_TEST(wrong == 0U);
  }
}

BOOST_AUTO_TEST_CASE(linear_takes_bias_activation_and_residual) {
  auto device = make_device();
  std::vector<float> w{1, 2, 3, 4};  // (2, 2)
  const std::array<WeightPart, 1> parts{{{w.data(), DType::kF32, 2}}};
  Result<OwnedWeight> weight = device->pack_weight(parts, 2, DType::kF32);
  BOOST_REQUIRE(weight.has_value());
  std::vector<float> x{1, -1};
  std::vector<float> y{10, 20};
  const std::vector<float> bias{0.5F, 2};
  device->ops().linear(matrix(x, 1, 2), weight->packed, vector(bias), matrix(y, 1, 2),
                       Epilogue::kRelu, true);
  BOOST_TEST(y[0] == 10.0F);  // 1 - 2 + 0.5 < 0
  BOOST_TEST(y[1] == 21.0F);  // 3 - 4 + 2 = 1
}

BOOST_AUTO_TEST_CASE(norms_and_gates_reach_their_kernels) {
  auto device = make_device();
  std::vector<float> x{3, 4, 0, 0};
  std::vector<float> y(4);
  const std::vector<float> ones(4, 1.0F), twos(4, 2.0F);
  device->ops().rms_norm(matrix(x, 1, 4), vector(twos), 0, matrix(y, 1, 4));
  BOOST_TEST(y[0] == 2 * 3 / 2.5F, boost::test_tools::tolerance(1e-5F));
  device->ops().layer_norm(matrix(x, 1, 4), vector(ones), vector(twos), 0, matrix(y, 1, 4));
  BOOST_TEST(y[0] == (3 - 1.75F) / std::sqrt(3.1875F) + 2, boost::test_tools::tolerance(1e-5F));
  std::vector<float> gate{1, -1, 5, 7};
  std::vector<float> gated(2);
  device->ops().silu_mul(matrix(gate, 1, 4), matrix(gated, 1, 2));
  BOOST_TEST(gated[0] == 5 / (1 + std::exp(-1.0F)), boost::test_tools::tolerance(1e-5F));
  BOOST_TEST(gated[1] == -7 / (1 + std::exp(1.0F)), boost::test_tools::tolerance(1e-5F));
}

BOOST_AUTO_TEST_CASE(rows_are_embedded_gathered_added_and_copied) {
  auto device = make_device();
  std::vector<float> table{0, 1, 2, 3, 4, 5};  // (3, 2)
  std::vector<float> y{9, 9, 9, 9, 9, 9};
  const std::array<int32_t, 3> ids{2, -1, 0};
  device->ops().embed({table.data(), DType::kF32, 3, 2}, ids.data(), matrix(y, 3, 2));
  BOOST_TEST(y == (std::vector<float>{4, 5, 9, 9, 0, 1}), boost::test_tools::per_element());
  const std::array<int32_t, 2> index{1, 1};
  std::vector<float> picked(4);
  device->ops().gather_rows(matrix(table, 3, 2), index.data(), matrix(picked, 2, 2));
  BOOST_TEST(picked == (std::vector<float>{2, 3, 2, 3}), boost::test_tools::per_element());
  std::vector<float> period{1, 1};
  device->ops().add_rows(matrix(picked, 2, 2), matrix(period, 1, 2));
  BOOST_TEST(picked == (std::vector<float>{3, 4, 3, 4}), boost::test_tools::per_element());
  std::vector<float> target(6);
  device->ops().copy(matrix(table, 3, 2).col_range(1, 1), matrix(target, 3, 2).col_range(0, 1));
  BOOST_TEST(target == (std::vector<float>{1, 0, 3, 0, 5, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(attention_reads_what_rope_append_wrote) {
  auto device = make_device();
  // One head of 2, one token at position 0 (no rotation): attention over itself returns its own
  // value.
  const KvLayout layout{.dtype = DType::kF32, .block_size = 4, .n_kv_heads = 1, .d_head = 8};
  Result<Buffer> cache = device->allocate(2 * layout.block_bytes());
  BOOST_REQUIRE(cache.has_value());
  std::vector<float> qkv(24);
  for (size_t i = 0; i < qkv.size(); ++i) qkv[i] = static_cast<float>(i);
  const std::vector<float> cosines(4, 1.0F), sines(4, 0.0F);
  const RopeTable table{.cos = cosines.data(), .sin = sines.data(), .n_positions = 1};
  const std::array<int32_t, 1> positions{0}, block_table{1}, lengths{1};
  const std::array<int32_t, 2> cu_query{0, 1};
  const std::array<int64_t, 1> slots{4};  // the first of block 1
  const AttentionBatch batch{.positions = positions.data(),
                             .slots = slots.data(),
                             .block_tables = block_table.data(),
                             .cu_query = cu_query.data(),
                             .context_lens = lengths.data(),
                             .n_seqs = 1,
                             .block_table_stride = 1};
  device->ops().rope_append(matrix(qkv, 1, 24), table, batch, cache->data(), layout);
  std::vector<float> out(8);
  device->ops().paged_attention(matrix(qkv, 1, 24).col_range(0, 8), cache->data(), layout, batch, 1,
                                matrix(out, 1, 8));
  BOOST_TEST(out == std::vector<float>(qkv.begin() + 16, qkv.end()),
             boost::test_tools::per_element());
  const std::array<int32_t, 2> segments{0, 1};
  std::vector<float> packed_out(8);
  device->ops().packed_attention(matrix(qkv, 1, 24), segments.data(), 1, 2, 1,
                                 matrix(packed_out, 1, 8));
  BOOST_TEST(packed_out == out, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(sampling_fills_one_result_a_row) {
  auto device = make_device();
  std::vector<float> logits{0, 3, 1, 9, 8, 1, 2, 9};  // column 3 is beyond the vocabulary
  const std::array<SamplingRow, 2> rows{{{.temperature = 0}, {.temperature = 0}}};
  std::array<SampledToken, 2> tokens;
  device->ops().sample(matrix(logits, 2, 4), 3, rows, tokens);
  BOOST_REQUIRE(device->sync().has_value());
  BOOST_TEST(tokens[0].id == 1);
  BOOST_TEST(tokens[1].id == 0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
