// What every kernel test needs: a plain team, all instruction sets of the machine, random data,
// comparison.
#pragma once

#include <atomic>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/isa.h"
#include "kernels/team.h"

namespace hs::test {

// Starts its threads anew for each run: slow, and free of any code under test.
class PlainTeam final : public Team {
 public:
  explicit PlainTeam(int size) : areas_(static_cast<size_t>(size)) {}
  int size() const override { return static_cast<int>(areas_.size()); }

  void run(int64_t n_items, FunctionRef<void(int64_t, int)> work) override {
    std::atomic<int64_t> next{0};
    const auto loop = [&](int worker) {
      for (int64_t i = next++; i < n_items; i = next++) work(i, worker);
    };
    std::vector<std::jthread> threads;
    for (int w = 1; w < size(); ++w) threads.emplace_back(loop, w);
    loop(0);
  }

  // Filled with NaN bytes, so that a kernel which trusts old contents fails.
  std::byte* scratch(int worker, size_t bytes) override {
    Area& area = areas_[static_cast<size_t>(worker)];
    if (area.bytes < bytes) {
      area.memory.reset(new (std::align_val_t{64}) std::byte[bytes]);
      std::fill_n(area.memory.get(), bytes, std::byte{0xFF});
      area.bytes = bytes;
    }
    return area.memory.get();
  }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  struct Area {
    std::unique_ptr<std::byte[], Free> memory;
    size_t bytes = 0;
  };
  std::vector<Area> areas_;
};

// Runs the check at each level this machine has, with one worker and with three.
template <typename Check>
void at_every_level(const Check& check) {
  const Isa best = cpu_isa();
  for (Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512}) {
    if (isa > best) break;
    set_cpu_isa_for_test(isa);
    for (int workers : {1, 3}) {
      BOOST_TEST_CONTEXT("level " << std::string(isa_name(isa)) << ", workers " << workers) {
        PlainTeam team(workers);
        check(team);
      }
    }
  }
  set_cpu_isa_for_test(best);
}

inline std::vector<float> random_floats(size_t n, uint32_t seed, float low = -2, float high = 2) {
  std::mt19937 engine(seed);
  std::uniform_real_distribution<float> number(low, high);
  std::vector<float> values(n);
  for (float& v : values) v = number(engine);
  return values;
}

// Round to nearest even, as the cache stores it; finite values only.
inline uint16_t to_bf16(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}
inline float from_bf16(uint16_t x) {
  return std::bit_cast<float>(uint32_t{x} << 16);
}

// The largest |a - b|, and infinity if anything is not finite.
inline double distance(const std::vector<float>& a, const std::vector<double>& b) {
  BOOST_REQUIRE_EQUAL(a.size(), b.size());
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = std::abs(double{a[i]} - b[i]);
    if (!(d < HUGE_VAL)) return HUGE_VAL;
    worst = std::max(worst, d);
  }
  return worst;
}

}  // namespace hs::test
