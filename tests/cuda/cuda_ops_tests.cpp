// Proves the ops of the CUDA device against the CPU's on the same numbers: linear layers of few and
// many rows with every epilogue, steps that mix prompts and single tokens, copies, and sampling
// with penalties, end tokens and log-probabilities.
#include <cmath>
#include <random>

#include "cuda/backend_testing.h"
#include "device/cpu/cpu_device.h"
#include "model/weights.h"

namespace hs::test {
namespace {

using cuda_emu::FakeMachine;

// Floats that bfloat16 holds exactly.
std::vector<float> numbers(int64_t n, uint32_t seed, float size = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-size, size);
  std::vector<float> values(static_cast<size_t>(n));
  for (float& value : values) value = bfloat16_to_float(float_to_bfloat16(uniform(random)));
  return values;
}

// One device and matrices of floats on it.
class Bench {
 public:
  explicit Bench(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  Device& device() { return *device_; }
  Ops& ops() { return device_->ops(); }

  Matrix matrix(const std::vector<float>& values, int64_t rows) {
    const int64_t cols = std::ssize(values) / rows;
    const DType dtype = device_->activation_dtype();
    void* const data = put_bytes(values.size() * dtype_bytes(dtype));
    if (dtype == DType::kF32) {
      device_->upload(values.data(), data, values.size() * sizeof(float));
    } else {
      std::vector<uint16_t> halves;
      for (const float value : values) halves.push_back(float_to_bfloat16(value));
      device_->upload(halves.data(), data, halves.size() * sizeof(uint16_t));
    }
    return {data, dtype, rows, cols, cols};
  }
  template <typename T>
  const T* put(const std::vector<T>& values) {
    void* const data = put_bytes(values.size() * sizeof(T));
    device_->upload(values.data(), data, values.size() * sizeof(T));
    return static_cast<const T*>(data);
  }
  void* put_bytes(size_t bytes) {
    buffers_.push_back(must_allocate(*device_, bytes));
    return buffers_.back().data();
  }
  std::vector<float> get(const Matrix& m) {
    const auto n = static_cast<size_t>(m.rows * m.cols);
    if (m.dtype == DType::kF32) return download<float>(*device_, m.data, n);
    std::vector<float> values;
    for (const uint16_t half : download<uint16_t>(*device_, m.data, n)) {
      values.push_back(bfloat16_to_float(half));
    }
    return values;
  }

 private:
  std::unique_ptr<Device> device_;
  std::vector<Buffer> buffers_;
};

std::unique_ptr<Device> cpu() {
  auto device = make_cpu_device({.index = 0, .threads = 1, .cores = {}});
  BOOST_REQUIRE(device.has_value());
  return std::move(*device);
}

// The largest difference as a share of one bfloat16 rounding of the larger numbers.
double difference(const std::vector<float>& got, const std::vector<float>& wanted) {
  BOOST_REQUIRE_EQUAL(got.size(), wanted.size());
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double off = std::abs(double{got[i]} - double{wanted[i]});
    worst = std::max(worst, off < HUGE_VAL ? off / (std::abs(double{wanted[i]}) + 1) : HUGE_VAL);
  }
  return worst;
}

// Computes on both; what `work` returns is compared.
template <typename Work>
double gpu_against_cpu(const Work& work) {
  Bench one(cpu());
  Bench other(make_gpu());
  const std::vector<float> wanted = work(one);
  return difference(work(other), wanted);
}

constexpr double kRounding = 1.0 / 128;

}  // namespace

BOOST_AUTO_TEST_SUITE(cuda_ops_tests)

BOOST_AUTO_TEST_CASE(linear_layers_of_few_and_many_rows_with_every_epilogue) {
  FakeMachine machine({.devices = {cuda_emu::a100()}});
  for (const int64_t rows : {1, 16, 17, 40}) {
    for (const auto epilogue : {Epilogue::kNone, Epilogue::kGeluErf, Epilogue::kGeluTanh,
                                Epilogue::kQuickGelu, Epilogue::kSilu, Epilogue::kRelu}) {
      for (const bool accumulate : {false, true}) {
        for (const bool with_bias : {false, true}) {
          const double off = gpu_against_cpu([&](Bench& bench) {
            const auto weights = numbers(24 * 40, 1);
            const WeightPart part{weights.data(), DType::kF32, 24};
            const auto packed = bench.device().pack_weight({&part, 1}, 40, DType::kBF16);
            BOOST_REQUIRE(packed.has_value());
            const Vector bias{with_bias ? bench.put(numbers(24, 2)) : nullptr, 24};
            const Matrix y = bench.matrix(numbers(rows * 24, 3), rows);
            bench.ops().linear(bench.matrix(numbers(rows * 40, 4), rows), packed->packed, bias, y,
                               epilogue, accumulate);
            return bench.get(y);
          });
          BOOST_TEST(off <= kRounding, rows << " rows, epilogue " << static_cast<int>(epilogue)
                                            << (accumulate ? ", added" : "")
                                            << (with_bias ? ", bias" : "") << ": " << off);
        }
      }
    }
  }
  check_clean(machine);
}

BOOST_AUTO_TEST_CASE(a_step_of_single_tokens_and_prompts_attends_as_on_the_cpu) {
  FakeMachine machine({.devices = {cuda_emu::a100()}});
  // Contexts of 20 and 3 tokens with one query each, then prompts of 9 and 70.
  const std::vector<int32_t> cu = {0, 1, 2, 11, 81};
  const std::vector<int32_t> lens = {20, 3, 30, 70};
  constexpr int32_t kStride = 5;
  std::vector<int32_t> tables;
  for (int32_t i = 0; i < 4 * kStride; ++i) tables.push_back((i * 7) % (4 * kStride));
  constexpr int64_t kBlocks = 4 * kStride;
  for (const int64_t n_single : {0, 1, 2}) {
    const double off = gpu_against_cpu([&](Bench& bench) {
      const DType dtype = bench.device().activation_dtype();
      const KvLayout layout{.dtype = dtype, .block_size = 16, .n_kv_heads = 2, .d_head = 40};
      const Matrix kv = bench.matrix(numbers(kBlocks * layout.block_stride(), 5), 1);
      AttentionBatch batch;
      batch.block_tables = bench.put(tables);
      batch.cu_query = bench.put(cu);
      batch.context_lens = bench.put(lens);
      batch.n_seqs = 4;
      batch.block_table_stride = kStride;
      batch.n_single = n_single;
      const Matrix q = bench.matrix(numbers(cu.back() * 4 * 40, 6), cu.back());
      const Matrix out =
          bench.matrix(std::vector<float>(static_cast<size_t>(cu.back() * 160)), cu.back());
      bench.ops().paged_attention(q, kv.data, layout, batch, 0.2F, out);
      return bench.get(out);
    });
    BOOST_TEST(off <= kRounding, n_single << " told single: " << off);
  }
  check_clean(machine);
}

BOOST_AUTO_TEST_CASE(copies_keep_what_stands_between_rows) {
  FakeMachine machine({.devices = {cuda_emu::a100()}});
  const double off = gpu_against_cpu([](Bench& bench) {
    const Matrix from = bench.matrix(numbers(6 * 20, 7), 6);
    const Matrix to = bench.matrix(numbers(6 * 24, 8), 6);
    bench.ops().copy(from.col_range(3, 9).row_range(1, 4), to.col_range(5, 9).row_range(2, 4));
    return bench.get(to);
  });
  BOOST_TEST(off == 0);
  check_clean(machine);
}

BOOST_AUTO_TEST_CASE(sampled_tokens_are_the_cpus_with_all_settings) {
  FakeMachine machine({.devices = {cuda_emu::a100()}});
  const std::vector<TokenCount> counts = {{3, 2}, {17, 0}, {40, 1}};
  const std::vector<int32_t> banned = {5, 9};
  std::vector<SamplingRow> rows(6);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].seed = 77 + i;
    rows[i].position = static_cast<uint32_t>(i);
  }
  rows[0].temperature = 0;
  rows[1].n_logprobs = 3;
  rows[2].top_p = 0.7F;
  rows[2].counts = counts.data();
  rows[2].n_counts = 3;
  rows[2].frequency_penalty = 1.5F;
  rows[3].temperature = 0;
  rows[3].ban_eos = true;
  rows[3].banned_ids = banned.data();
  rows[3].n_banned = 2;
  rows[4].top_k = 4;
  rows[4].counts = counts.data();
  rows[4].n_counts = 2;
  rows[4].repetition_penalty = 1.3F;
  rows[5].min_p = 0.2F;
  std::vector<float> logits = numbers(6 * 64, 9, 4);
  logits[3 * 64 + 5] = 30;  // banned
  const auto sample = [&](Bench& bench) {
    const Matrix m{const_cast<float*>(bench.put(logits)), DType::kF32, 6, 64, 64};
    std::vector<SampledToken> out(6);
    bench.ops().sample(m, 60, rows, out);
    BOOST_REQUIRE(bench.device().sync().has_value());
    return out;
  };
  Bench one(cpu());
  Bench other(make_gpu());
  const auto wanted = sample(one);
  const auto got = sample(other);
  for (size_t i = 0; i < rows.size(); ++i) {
    BOOST_TEST(got[i].id == wanted[i].id, "row " << i);
    BOOST_TEST(got[i].n_top == wanted[i].n_top);
    BOOST_TEST(std::abs(got[i].logprob - wanted[i].logprob) < 1e-5F);
  }
  BOOST_TEST(got[3].id != 5);
}

BOOST_AUTO_TEST_CASE(heads_that_no_kernel_takes_are_refused_when_the_model_loads) {
  FakeMachine machine({.devices = {cuda_emu::a100()}});
  const auto device = make_gpu();
  const Status refused =
      device->ops().reserve({.n_seqs = 4, .context_max = 64, .n_heads = 2, .d_head = 36});
  BOOST_REQUIRE(!refused.has_value());
  BOOST_TEST((refused.error().kind == ErrorKind::kUnsupported));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
