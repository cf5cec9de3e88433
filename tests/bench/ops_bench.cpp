// Speed of the CPU ops other than linear, on one core, beside this core's multiply-add rate and
// read bandwidth.
//
//   hs_bench_ops [REPEATS]
//
// Times are processor time of the thread, the best of the repeats, so that other processes disturb
// them little (they still share caches and memory). Prints a table and, last, one line of JSON.
#include <fmt/format.h>
#include <immintrin.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "kernels/activation.h"
#include "kernels/attention.h"
#include "kernels/isa.h"
#include "kernels/norm.h"
#include "kernels/rope.h"
#include "kernels/sampling.h"

namespace {

double cpu_seconds() {
  timespec t;
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// Best seconds of one call; short calls are repeated within one measurement.
template <typename F>
double best_seconds(int repeats, const F& f) {
  f();
  double start = cpu_seconds();
  f();
  const double once = cpu_seconds() - start;
  const int inner = once > 1e-3 ? 1 : static_cast<int>(1e-3 / (once + 1e-9)) + 1;
  double best = 1e9;
  for (int r = 0; r < repeats; ++r) {
    start = cpu_seconds();
    for (int i = 0; i < inner; ++i) f();
    best = std::min(best, (cpu_seconds() - start) / inner);
  }
  return best;
}

__attribute__((target("avx512f"))) float multiply_adds_512(int64_t n) {
  __m512 acc[12];
  for (auto& a : acc) a = _mm512_set1_ps(1.0F);
  const __m512 x = _mm512_set1_ps(0.999F);
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm512_fmadd_ps(a, x, x);
  }
  float sum = 0;
  for (auto& a : acc) sum += _mm512_cvtss_f32(a);
  return sum;
}
__attribute__((target("avx2,fma"))) float multiply_adds_256(int64_t n) {
  __m256 acc[12];
  for (auto& a : acc) a = _mm256_set1_ps(1.0F);
  const __m256 x = _mm256_set1_ps(0.999F);
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm256_fmadd_ps(a, x, x);
  }
  float sum = 0;
  for (auto& a : acc) sum += _mm256_cvtss_f32(a);
  return sum;
}
float multiply_adds_128(int64_t n) {
  __m128 acc[12];
  for (auto& a : acc) a = _mm_set1_ps(1.0F);
  const __m128 x = _mm_set1_ps(0.999F);
  for (int64_t i = 0; i < n; ++i) {
#pragma GCC unroll 12
    for (auto& a : acc) a = _mm_add_ps(_mm_mul_ps(a, x), x);
  }
  float sum = 0;
  for (auto& a : acc) sum += _mm_cvtss_f32(a);
  return sum;
}

volatile float g_sink;

double peak_gflops(int repeats) {
  constexpr int64_t kLoops = 1000000;
  const hs::Isa isa = hs::cpu_isa();
  auto* loop = isa >= hs::Isa::kAvx512 ? multiply_adds_512
               : isa >= hs::Isa::kAvx2 ? multiply_adds_256
                                       : multiply_adds_128;
  const int lanes = isa >= hs::Isa::kAvx512 ? 16 : isa >= hs::Isa::kAvx2 ? 8 : 4;
  const double seconds = best_seconds(repeats, [&] { g_sink = loop(kLoops); });
  return 2.0 * 12 * lanes * kLoops / seconds * 1e-9;
}

std::vector<float> random_floats(int64_t n) {
  std::mt19937 engine(1);
  std::vector<float> v(static_cast<size_t>(n));
  for (float& x : v) x = static_cast<float>(static_cast<int32_t>(engine())) * 0x1p-30F;
  return v;
}

// Memory as the CPU device has it: in large pages where the system gives them.
class Slab {
 public:
  explicit Slab(size_t bytes) : bytes_(bytes) {
    void* memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) std::abort();
    ::madvise(memory, bytes, MADV_HUGEPAGE);
    data_ = static_cast<std::byte*>(memory);
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() { ::munmap(data_, bytes_); }
  std::byte* data() { return data_; }

 private:
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

double read_gbps(int repeats) {
  constexpr size_t kBytes = size_t{256} << 20;
  Slab slab(kBytes);
  std::memset(slab.data(), 1, kBytes);
  const auto* data = reinterpret_cast<const float*>(slab.data());
  const double seconds = best_seconds(repeats, [&] {
    __m128 sum[8] = {};
    for (size_t i = 0; i < kBytes / sizeof(float); i += 32) {
      for (size_t j = 0; j < 8; ++j) sum[j] = _mm_add_ps(sum[j], _mm_loadu_ps(&data[i + 4 * j]));
    }
    for (auto& s : sum) g_sink = _mm_cvtss_f32(s);
  });
  return static_cast<double>(kBytes) / seconds * 1e-9;
}

class SerialTeam final : public hs::Team {
 public:
  int size() const override { return 1; }
  void run(int64_t n_items, hs::FunctionRef<void(int64_t, int)> work) override {
    for (int64_t i = 0; i < n_items; ++i) work(i, 0);
  }
  std::byte* scratch(int, size_t bytes) override {
    if (bytes > bytes_) {
      area_.reset(new (std::align_val_t{64}) std::byte[bytes]);
      bytes_ = bytes;
    }
    return area_.get();
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  std::unique_ptr<std::byte, Free> area_;
  size_t bytes_ = 0;
};

struct Report {
  double gflops_peak, gbps_peak;
  std::string json;

  // bytes: what must be read from memory; 0 where the data is cached.
  void add(const std::string& name, double seconds, double flops, double bytes) {
    const double gflops = flops / seconds * 1e-9, gbps = bytes / seconds * 1e-9;
    fmt::print("{:<44} {:>10.1f} us {:>8.1f} GFLOP/s {:>4.0f} % {:>7.2f} GB/s {:>4.0f} %\n", name,
               seconds * 1e6, gflops, 100 * gflops / gflops_peak, gbps, 100 * gbps / gbps_peak);
    json += fmt::format("{}\"{}\": {{\"us\": {:.1f}, \"gflops\": {:.1f}, \"gbps\": {:.2f}}}",
                        json.empty() ? "" : ", ", name, seconds * 1e6, gflops, gbps);
  }
};

struct Bench {
  int repeats;
  SerialTeam team;
  Report report;

  void packed(int32_t n, int32_t heads, int32_t d) {
    const int64_t stride = int64_t{3} * heads * d;
    const auto x = random_floats(n * stride);
    std::vector<float> out(static_cast<size_t>(n * heads * d));
    const int32_t cu[] = {0, n};
    const float* q = x.data();
    const hs::PackedAttentionParams p = {
        q, q + heads * d, q + 2 * heads * d, cu, out.data(), 1, stride, heads, d, 0.125F};
    const double seconds = best_seconds(repeats, [&] { hs::packed_attention_cpu(p, team); });
    report.add(fmt::format("packed attention {} tokens {}x{}", n, heads, d), seconds,
               4.0 * n * n * heads * d, 0);
  }

  void paged(const char* what, hs::DType dtype, int32_t n_seqs, int32_t n_query, int32_t context,
             int32_t heads, int32_t kv_heads, int32_t d) {
    hs::PagedAttentionParams p;
    p.layout = {dtype, 16, kv_heads, d};
    const int32_t blocks = (context + 15) / 16;
    // One layer's cache is far larger than the caches only with many layers: enough copies to go
    // through memory.
    const auto layer_bytes = p.layout.block_bytes() * static_cast<size_t>(blocks * n_seqs);
    const size_t layers = n_query == 1 ? (size_t{256} << 20) / layer_bytes + 1 : 1;
    Slab cache(layer_bytes * layers);
    const uint32_t ordinary = 0x3F803F00;  // as one float32 and as two bfloat16
    for (size_t at = 0; at < layer_bytes * layers; at += 4)
      std::memcpy(cache.data() + at, &ordinary, 4);
    std::vector<int32_t> tables, cu = {0}, contexts;
    for (int32_t s = 0; s < n_seqs; ++s) {
      for (int32_t b = 0; b < blocks; ++b) tables.push_back((b * n_seqs + s) % (blocks * n_seqs));
      cu.push_back(cu.back() + n_query);
      contexts.push_back(context);
    }
    const int64_t tokens = int64_t{n_seqs} * n_query;
    const auto q = random_floats(tokens * heads * d);
    std::vector<float> out(q.size());
    p.q = q.data();
    p.block_tables = tables.data();
    p.cu_query = cu.data();
    p.context_lens = contexts.data();
    p.out = out.data();
    p.n_seqs = n_seqs;
    p.q_stride = int64_t{heads} * d;
    p.block_table_stride = blocks;
    p.n_heads = heads;
    p.scale = 0.1F;
    const double seconds = best_seconds(repeats,
                                        [&] {
                                          for (size_t l = 0; l < layers; ++l) {
                                            p.kv = cache.data() + l * layer_bytes;
                                            hs::paged_attention_cpu(p, team);
                                          }
                                        }) /
                           static_cast<double>(layers);
    const double pairs = static_cast<double>(tokens) * (context - (n_query - 1) / 2.0);
    report.add(fmt::format("{} {} x{} context {} {}/{}x{}", what, hs::dtype_name(dtype), n_seqs,
                           context, heads, kv_heads, d),
               seconds, 4.0 * pairs * heads * d,
               n_query == 1 ? static_cast<double>(layer_bytes) : 0);
  }

  void norms(int64_t rows, int64_t dim) {
    const auto x = random_floats(rows * dim), weight = random_floats(dim);
    std::vector<float> y(x.size());
    const hs::NormParams p = {x.data(), weight.data(), weight.data(), y.data(), rows,
                              dim,      dim,           dim,           1e-5F};
    const double bytes = 8.0 * static_cast<double>(rows * dim);
    report.add(fmt::format("rms norm {}x{}", rows, dim),
               best_seconds(repeats, [&] { hs::rms_norm_cpu(p, team); }),
               4.0 * static_cast<double>(rows * dim), bytes);
    report.add(fmt::format("layer norm {}x{}", rows, dim),
               best_seconds(repeats, [&] { hs::layer_norm_cpu(p, team); }),
               8.0 * static_cast<double>(rows * dim), bytes);
  }

  void silu(int64_t rows, int64_t dim) {
    const auto x = random_floats(rows * 2 * dim);
    std::vector<float> y(static_cast<size_t>(rows * dim));
    report.add(
        fmt::format("silu mul {}x{}", rows, dim),
        best_seconds(repeats, [&] { hs::silu_mul_cpu({x.data(), y.data(), rows, dim}, team); }), 0,
        12.0 * static_cast<double>(rows * dim));
  }

  void sample(const char* what, int64_t vocab, const hs::SamplingRow& row) {
    std::mt19937 engine(2);
    std::normal_distribution<float> normal(0, 3);
    std::vector<float> x(static_cast<size_t>(vocab));
    for (float& v : x) v = normal(engine);
    hs::SampledToken out;
    report.add(fmt::format("sample {} of {}", what, vocab),
               best_seconds(repeats,
                            [&] { hs::sample_cpu({x.data(), &row, &out, 1, vocab, vocab}, team); }),
               0, 4.0 * static_cast<double>(vocab));
  }

  void sampling(int64_t vocab) {
    hs::SamplingRow row;
    sample("plain", vocab, row);
    row.top_p = 0.9F;
    sample("top_p 0.9", vocab, row);
    row.top_k = 50;
    sample("top_k 50, top_p 0.9", vocab, row);
    row.temperature = 0.2F;
    sample("top_k 50, top_p 0.9, T 0.2", vocab, row);
    row = {};
    row.temperature = 0;
    sample("greedy", vocab, row);
    row.n_logprobs = 20;
    sample("greedy, 20 logprobs", vocab, row);
  }

  void rope(int64_t tokens, int32_t heads, int32_t kv_heads, int32_t d) {
    const int64_t row = int64_t{heads + 2 * kv_heads} * d;
    auto qkv = random_floats(tokens * row);
    const auto table = random_floats(4096 * d / 2);
    hs::KvLayout layout{hs::DType::kBF16, 16, kv_heads, d};
    std::vector<std::byte> cache(layout.block_bytes() * static_cast<size_t>(tokens / 16 + 1));
    std::vector<int32_t> positions;
    std::vector<int64_t> slots;
    for (int64_t t = 0; t < tokens; ++t) {
      positions.push_back(static_cast<int32_t>(t));
      slots.push_back(t);
    }
    // A quarter turn: values keep their size over the repeats.
    std::vector<float> zero(table.size(), 0.0F), one(table.size(), 1.0F);
    const hs::RopeAppendParams p = {qkv.data(),
                                    zero.data(),
                                    one.data(),
                                    positions.data(),
                                    slots.data(),
                                    cache.data(),
                                    layout,
                                    tokens,
                                    heads,
                                    1,
                                    {}};
    report.add(fmt::format("rope and append {} tokens {}/{}x{}", tokens, heads, kv_heads, d),
               best_seconds(repeats, [&] { hs::rope_append_cpu(p, team); }), 0,
               static_cast<double>(tokens * row) * 6);
  }
};

}  // namespace

int main(int argc, char** argv) {
  const int repeats = argc > 1 ? std::atoi(argv[1]) : 10;
  if (repeats < 1) {
    fmt::print(stderr, "usage: hs_bench_ops [REPEATS]\n");
    return 2;
  }
  Bench bench{repeats, {}, {peak_gflops(repeats), read_gbps(repeats), {}}};
  Report& report = bench.report;
  fmt::print("{}: {:.1f} GFLOP/s, {:.2f} GB/s read, one core\n", hs::isa_name(hs::cpu_isa()),
             report.gflops_peak, report.gbps_peak);
  const auto f32 = hs::DType::kF32, bf16 = hs::DType::kBF16;
  bench.packed(577, 16, 64);
  bench.packed(65, 4, 32);
  bench.packed(1024, 4, 80);
  bench.paged("prefill", f32, 1, 512, 512, 9, 3, 64);
  bench.paged("prefill", bf16, 1, 512, 2048, 8, 8, 128);
  bench.paged("prefill", f32, 1, 128, 128, 4, 4, 32);
  bench.paged("decode", f32, 1, 1, 2048, 9, 3, 64);
  bench.paged("decode", bf16, 1, 1, 2048, 9, 3, 64);
  bench.paged("decode", f32, 1, 1, 2048, 8, 8, 128);
  bench.paged("decode", bf16, 1, 1, 2048, 8, 8, 128);
  bench.paged("decode", bf16, 16, 1, 600, 9, 3, 64);
  bench.paged("decode", f32, 1, 1, 128, 4, 4, 32);
  bench.norms(512, 576);
  bench.norms(1, 4096);
  bench.silu(512, 1536);
  bench.rope(512, 9, 3, 64);
  bench.sampling(32064);
  bench.sampling(151936);
  fmt::print(
      "{{\"isa\": \"{}\", \"core_gflops\": {:.1f}, \"core_read_gbps\": {:.2f}, \"ops\": {{{}}}}}\n",
      hs::isa_name(hs::cpu_isa()), report.gflops_peak, report.gbps_peak, report.json);
  return 0;
}
