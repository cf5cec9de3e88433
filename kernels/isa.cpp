#include "kernels/isa.h"

#include <cpuid.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "base/check.h"
#include "base/log.h"

namespace hs {
namespace {

constexpr Isa kAll[] = {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx};

struct Registers {
  uint32_t eax = 0, ebx = 0, ecx = 0, edx = 0;
};

Registers cpuid(uint32_t leaf, uint32_t subleaf) {
  Registers r;
  if (__get_cpuid_count(leaf, subleaf, &r.eax, &r.ebx, &r.ecx, &r.edx) == 0) return {};
  return r;
}

constexpr bool bit(uint64_t word, int index) {
  return ((word >> index) & 1) != 0;
}

// Which register states the operating system saves (XCR0); 0 when it saves none beyond SSE.
uint64_t saved_states() {
  if (!bit(cpuid(1, 0).ecx, 27)) return 0;  // OSXSAVE
  uint32_t low = 0;
  uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t{high} << 32) | low;
}

sigjmp_buf probe_return;
void leave_probe(int) {
  siglongjmp(probe_return, 1);
}

// Loads a tile configuration, zeroes a tile, multiplies, and releases the tiles.
__attribute__((target("amx-tile,amx-bf16"))) void touch_tiles() {
  alignas(64) uint8_t config[64] = {};
  config[0] = 1;  // palette
  for (int tile = 0; tile < 3; ++tile) {
    config[16 + 2 * tile] = 64;  // bytes in a row
    config[48 + tile] = 16;      // rows
  }
  __asm__ volatile(
      "ldtilecfg %0\n\t"
      "tilezero %%tmm0\n\ttilezero %%tmm1\n\ttilezero %%tmm2\n\t"
      "tdpbf16ps %%tmm2, %%tmm1, %%tmm0\n\t"
      "tilerelease"
      :
      : "m"(config));
}

// Virtual machines and sandboxes may show AMX in CPUID and still refuse it, so ask the kernel and
// then try.
bool amx_works() {
  constexpr long kArchReqXcompPerm = 0x1023;  // Linux Documentation/arch/x86/xstate.rst
  constexpr long kTileData = 18;
  if (syscall(SYS_arch_prctl, kArchReqXcompPerm, kTileData) != 0) return false;
  struct sigaction probe = {};
  probe.sa_handler = leave_probe;
  sigemptyset(&probe.sa_mask);
  struct sigaction old_ill = {};
  struct sigaction old_segv = {};
  sigaction(SIGILL, &probe, &old_ill);
  sigaction(SIGSEGV, &probe, &old_segv);
  bool works = false;
  if (sigsetjmp(probe_return, 1) == 0) {
    touch_tiles();
    works = true;
  }
  sigaction(SIGILL, &old_ill, nullptr);
  sigaction(SIGSEGV, &old_segv, nullptr);
  return works;
}

Isa detect() {
  const uint64_t states = saved_states();
  const Registers basic = cpuid(1, 0);
  const Registers extended = cpuid(7, 0);
  const bool ymm = (states & 0x6) == 0x6;
  const bool avx2 = ymm && bit(basic.ecx, 28) && bit(basic.ecx, 12) && bit(basic.ecx, 29) &&
                    bit(extended.ebx, 5) && bit(extended.ebx, 8);  // AVX, FMA, F16C, AVX2, BMI2
  if (!avx2) return Isa::kBaseline;
  const bool zmm = (states & 0xE6) == 0xE6;
  const bool avx512 = zmm && bit(extended.ebx, 16) && bit(extended.ebx, 17) &&
                      bit(extended.ebx, 30) && bit(extended.ebx, 31);  // F, DQ, BW, VL
  if (!avx512) return Isa::kAvx2;
  if (extended.eax < 1 || !bit(cpuid(7, 1).eax, 5)) return Isa::kAvx512;
  const bool tiles = bit(states, 17) && bit(states, 18) && bit(extended.edx, 24) &&
                     bit(extended.edx, 22);  // TILECFG, TILEDATA; AMX-TILE, AMX-BF16
  return tiles && amx_works() ? Isa::kAmx : Isa::kAvx512Bf16;
}

std::optional<Isa> parse(std::string_view name) {
  for (Isa isa : kAll) {
    if (isa_name(isa) == name) return isa;
  }
  return std::nullopt;
}

Isa machine_isa() {
  static const Isa isa = detect();
  return isa;
}

// What the environment allows of it.
Isa chosen_isa() {
  const char* wanted = std::getenv("HETEROSERVE_CPU_ISA");
  if (wanted == nullptr || *wanted == '\0') return machine_isa();
  const std::optional<Isa> isa = parse(wanted);
  if (!isa) {
    log_warning(
        "HETEROSERVE_CPU_ISA={} is not one of baseline, avx2, avx512, avx512_bf16, amx; using {}",
        wanted, isa_name(machine_isa()));
    return machine_isa();
  }
  if (*isa > machine_isa()) {
    log_warning("HETEROSERVE_CPU_ISA={} is more than this machine runs; using {}", wanted,
                isa_name(machine_isa()));
    return machine_isa();
  }
  return *isa;
}

std::atomic<Isa>& current() {
  static std::atomic<Isa> isa{chosen_isa()};
  return isa;
}

}  // namespace

Isa cpu_isa() {
  return current().load(std::memory_order_relaxed);
}

std::string_view isa_name(Isa isa) {
  switch (isa) {
    case Isa::kBaseline:
      return "baseline";
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
    case Isa::kAmx:
      return "amx";
  }
  return "unknown";
}

void set_cpu_isa_for_test(Isa isa) {
  HS_CHECK(isa <= machine_isa());
  current().store(isa, std::memory_order_relaxed);
}

}  // namespace hs
