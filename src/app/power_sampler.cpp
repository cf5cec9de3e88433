#include "app/power_sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "base/log.h"

namespace hs {
namespace {

constexpr std::chrono::milliseconds kPeriod(250);

std::optional<double> sum_of(std::vector<std::unique_ptr<EnergyCounter>>& counters) {
  double joules = 0;
  for (const auto& counter : counters) {
    const auto read = counter->joules();
    if (!read) return {};
    joules += *read;
  }
  return joules;
}

Result<std::vector<std::unique_ptr<EnergyCounter>>> open_energy_counters(
    const std::vector<DeviceInfo>& devices) {
  std::vector<std::unique_ptr<EnergyCounter>> counters;
  std::shared_ptr<Nvml> nvml;
  bool has_cpu = false;
  for (const DeviceInfo& device : devices) {
    const bool is_cpu = device.id.kind == DeviceId::Kind::kCpu;
    if (is_cpu && std::exchange(has_cpu, true)) continue;
    if (!is_cpu && nvml == nullptr) {
      auto opened = Nvml::open();
      if (!opened)
        return fail(opened.error().kind,
                    fmt::format("{}: {}", to_string(device.id), opened.error().message));
      nvml = *std::move(opened);
    }
    auto counter = is_cpu ? open_rapl() : open_gpu_energy(nvml, device.pci);
    if (!counter)
      return fail(counter.error().kind,
                  fmt::format("{}: {}", to_string(device.id), counter.error().message));
    counters.push_back(*std::move(counter));
  }
  return counters;
}

}  // namespace

PowerSampler::PowerSampler(std::vector<DeviceInfo> devices, bool is_priced, CostAccount& account,
                           const Clock& clock)
    : devices_(std::move(devices)),
      is_priced_(is_priced),
      account_(account),
      clock_(clock),
      thread_([this] { run(); }) {}

PowerSampler::~PowerSampler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void PowerSampler::run() {
  auto counters = open_energy_counters(devices_);
  if (counters) return sample(*counters);
  if (is_priced_) {
    log_warning("--price-kwh has no effect, requests are logged without energy and cost: {}",
                counters.error().message);
  } else {
    log_info("requests are logged without energy: {}", counters.error().message);
  }
}

void PowerSampler::sample(std::vector<std::unique_ptr<EnergyCounter>>& counters) {
  std::optional<double> before = sum_of(counters);
  int64_t before_us = clock_.now_us();
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kPeriod, [this] { return stopping_; })) {
    lock.unlock();
    const std::optional<double> now = sum_of(counters);
    const int64_t now_us = clock_.now_us();
    const double seconds = static_cast<double>(std::max<int64_t>(now_us - before_us, 1)) * 1e-6;
    account_.set_power(now && before ? std::optional((*now - *before) / seconds) : std::nullopt);
    before = now;
    before_us = now_us;
    lock.lock();
  }
}

}  // namespace hs
