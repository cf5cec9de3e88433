// Speed of linear layers beside the limits of this machine, measured in the same run and round by
// round in turn, so that a neighbour who takes a core for a while slows both: hs_bench_kernels
// [--threads N] [--rounds N].
//
// With --cpu-time one thread runs and is charged only for the time it ran: the numbers to trust on
// a busy machine. Decode shapes rotate through copies of the weights that together do not fit the
// caches, as a model's layers do. Ends with one line of JSON.
#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "bench/machine_limits.h"
#include "bench/timing.h"
#include "device/cpu/cpu_team.h"
#include "device/cpu/host_memory.h"
#include "kernels/isa.h"
#include "kernels/linear.h"
#include "kernels/weight_layout.h"

namespace {

using hs::DType;
using hs::Samples;

struct Memory {
  explicit Memory(size_t size)
      : bytes(size), data(static_cast<std::byte*>(hs::allocate_host_memory(size))) {
    HS_CHECK(data != nullptr);
    std::memset(data, 0x3D, size);  // finite in both formats, and no page stays shared
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { hs::free_host_memory(data, bytes); }
  size_t bytes;
  std::byte* data;
};

struct Options {
  int threads = 0;
  int rounds = 15;
  hs::BenchClock clock = hs::BenchClock::kWall;
};

class Bench {
 public:
  explicit Bench(const Options& options)
      : rounds_(options.rounds),
        clock_(options.clock),
        team_({.threads = options.threads, .name = "bench"}),
        memory_(size_t{256} << 20),
        fma_(hs::measure_fma_rate(rounds_, team_, clock_)) {}

  void limits();
  void shape(int64_t in_dim, int64_t out_dim, int64_t n_rows, DType dtype);
  const std::string& json() const { return json_; }

 private:
  int rounds_;
  hs::BenchClock clock_;
  hs::CpuTeam team_;
  Memory memory_;
  Samples fma_;
  std::string json_;
};

void Bench::limits() {
  hs::CpuTeam alone({.threads = 1, .name = "bench"});
  const Samples read_1 = hs::measure_read_rate(memory_.data, memory_.bytes, rounds_, alone, clock_);
  const Samples read = hs::measure_read_rate(memory_.data, memory_.bytes, rounds_, team_, clock_);
  const Samples fma_1 = hs::measure_fma_rate(rounds_, alone, clock_);
  const auto line = [](const char* name, const Samples& s, const char* unit) {
    fmt::print("{:<28} {:8.1f} {} ({:.1f} to {:.1f})\n", name, s.median, unit, s.low, s.high);
  };
  line("read, 1 thread", read_1, "GB/s");
  line("read, all threads", read, "GB/s");
  line("multiply-add, 1 thread", fma_1, "GFLOP/s");
  line("multiply-add, all threads", fma_, "GFLOP/s");
  json_ = fmt::format(
      "{{\"isa\": \"{}\", \"threads\": {}, \"read_1_gb_s\": {:.2f}, \"read_gb_s\": {:.2f}, "
      "\"fma_1_gflop_s\": {:.1f}, \"fma_gflop_s\": {:.1f}, \"linear\": [",
      hs::isa_name(hs::cpu_isa()), team_.size(), read_1.median, read.median, fma_1.median,
      fma_.median);
}

void Bench::shape(int64_t in_dim, int64_t out_dim, int64_t n_rows, DType dtype) {
  const size_t bytes = hs::packed_weight_bytes(dtype, out_dim, in_dim);
  const size_t stride = (bytes + 63) / 64 * 64;
  const size_t n_copies = std::max<size_t>(memory_.bytes / stride, 1);
  const size_t calls = n_rows > 6 ? 1 : std::max<size_t>((size_t{32} << 20) / stride, 1);
  std::vector<float> x(static_cast<size_t>(n_rows * in_dim), 0.5F);
  std::vector<float> y(static_cast<size_t>(n_rows * out_dim));
  size_t copy = 0;
  const auto run = [&] {
    for (size_t call = 0; call < calls; ++call) {
      hs::linear_cpu({.x = x.data(),
                      .weight = {dtype, out_dim, in_dim, memory_.data + copy++ % n_copies * stride},
                      .y = y.data(),
                      .n_rows = n_rows,
                      .x_stride = in_dim,
                      .y_stride = out_dim},
                     team_);
    }
  };
  run();
  std::vector<double> gbs, gflops, of_read, of_fma;
  for (int round = 0; round < rounds_; ++round) {
    const double read =
        hs::measure_read_rate(memory_.data, size_t{32} << 20, 1, team_, clock_).median;
    const double fma = hs::measure_fma_rate(1, team_, clock_).median;
    const double seconds = hs::time_once(run, clock_) / static_cast<double>(calls);
    gbs.push_back(static_cast<double>(bytes) * 1e-9 / seconds);
    gflops.push_back(2e-9 * static_cast<double>(n_rows * in_dim * out_dim) / seconds);
    of_read.push_back(gbs.back() / read);
    of_fma.push_back(gflops.back() / fma);
  }
  const Samples rate = hs::summarize(gbs);
  const Samples flops = hs::summarize(gflops);
  const double read_share = hs::summarize(of_read).median;
  const double fma_share = hs::summarize(of_fma).median;
  fmt::print(
      "{:>8} {:>5} x {:<5} {:>4} rows {:7.2f} GB/s ({:5.2f} to {:5.2f}) {:4.0f} % {:8.1f} GFLOP/s "
      "({:5.1f} to {:5.1f}) {:4.0f} %",
      hs::dtype_name(dtype), in_dim, out_dim, n_rows, rate.median, rate.low, rate.high,
      100 * read_share, flops.median, flops.low, flops.high, 100 * fma_share);
  fmt::print("\n");
  std::fflush(stdout);
  json_ += fmt::format(
      "{}{{\"dtype\": \"{}\", \"in\": {}, \"out\": {}, \"rows\": {}, \"gb_s\": {:.2f}, "
      "\"gflop_s\": "
      "{:.1f}, \"share_of_read\": {:.3f}, \"share_of_fma\": {:.3f}}}",
      json_.back() == '[' ? "" : ", ", hs::dtype_name(dtype), in_dim, out_dim, n_rows, rate.median,
      flops.median, read_share, fma_share);
}

}  // namespace

int main(int argc, char** argv) {
  Options options{.threads = static_cast<int>(hs::process_cores().size())};
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    if (name == "--cpu-time") {
      options.threads = 1;
      options.clock = hs::BenchClock::kThread;
      --i;
      continue;
    }
    const std::string_view value = i + 1 < argc ? argv[i + 1] : "";
    int number = 0;
    const auto parsed = std::from_chars(value.data(), value.data() + value.size(), number);
    if (parsed.ec != std::errc() || number < 1 || (name != "--threads" && name != "--rounds")) {
      fmt::print(stderr, "usage: hs_bench_kernels [--threads N] [--rounds N] [--cpu-time]\n");
      return 2;
    }
    (name == "--threads" ? options.threads : options.rounds) = number;
  }
  Bench bench(options);
  bench.limits();
  struct Shape {
    int64_t in_dim, out_dim;
  };
  for (DType dtype : {DType::kF32, DType::kBF16}) {
    for (const Shape& s : {Shape{576, 1536}, Shape{1536, 576}, Shape{4096, 4096}}) {
      for (int64_t n_rows : {1, 4, 16, 64, 512}) bench.shape(s.in_dim, s.out_dim, n_rows, dtype);
    }
  }
  fmt::print("{}]}}\n", bench.json());
  return 0;
}
