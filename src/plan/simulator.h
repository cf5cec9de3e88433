// Serves requests on modelled devices: discrete events drive the same TierScheduler that `serve`
// drives with real ones, so a simulated minute holds the same decisions as a real one. No clock, no
// thread, no device: the same inputs and seed give the same result.
//
// Devices that were measured (plan/measured_times.h) also need their measured pauses between
// orders, and are slower by the measured crowding while others work, too.
//
// What is not modelled: decoding and scaling pictures on the CPU, tokenizing, the network, and the
// prefix and embedding caches: every prompt and picture is new, so that traffic with repetitions is
// served sooner than this says. Answers have the length that the workload says.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/partition.h"
#include "engine/timeline.h"
#include "plan/device_model.h"
#include "plan/serving_model.h"
#include "plan/workload.h"

namespace hs {

// The devices and what they do. kColocated: all devices of both lists are alike. Otherwise both
// lists hold one.
struct SimArm {
  std::string name;
  std::vector<DeviceModel> consumer;
  std::vector<DeviceModel> datacenter;
  Partition partition = Partition::kModality;
  StealMode steal = StealMode::kOff;
  bool overlap = true;  // prefill runs up to the first picture that has not arrived
};

enum class ArrivalProcess : uint8_t {
  kSaturated,  // a new request as soon as one is answered
  kPoisson,
  kBursts,  // of 8 at once, at random times
  kEven,
  kReplay,  // at the workload's own times, in its order
};

struct SimOptions {
  ServingLimits limits;
  LinkRates link;
  ArrivalProcess arrivals = ArrivalProcess::kSaturated;
  double rate = 1;          // requests a second, of kPoisson, kBursts and kEven
  double speed = 1;         // of kReplay: times are divided by it
  int32_t concurrency = 0;  // of kSaturated; 0: enough to keep every device busy
  bool in_order = false;    // requests come in the workload's order, not at random
  int64_t n_requests = 2000;
  uint64_t seed = 1;
  // The first ones, while queues fill, count for nothing.
  double warmup_share = 0.1;
  double ttft_target_ms = 2000;
  double tpot_target_ms = 50;
  int64_t steal_delay_us = 50'000;
  int64_t steal_pause_us = 2'000'000;
  bool timeline = false;  // keep the last orders of each lane
  bool each = false;      // keep what each request took
};

struct Percentiles {
  double p50 = 0;
  double p90 = 0;
  double p99 = 0;
};

struct SimLane {
  std::string name;  // "consumer 0, RTX 4090"
  double encode_us = 0;
  double step_us = 0;
  double stolen_us = 0;  // of step_us
  double copy_us = 0;    // embeddings or keys and values that come in
  double busy_us() const { return encode_us + step_us + copy_us; }
};

struct SimResult {
  int64_t n_finished = 0;
  int64_t n_refused = 0;    // the queue was full
  int64_t n_too_large = 0;  // can never fit
  double duration_us = 0;   // of the part that is measured, as are:
  int64_t n_measured = 0;
  double requests_per_s = 0;
  double output_tokens_per_s = 0;
  Percentiles ttft_ms;
  Percentiles tpot_ms;
  Percentiles e2e_ms;
  double good_share = 0;       // of the measured requests: both targets met
  double goodput_per_s = 0;    // those requests
  double total_us = 0;         // from the first arrival to the last answer
  int64_t total_tokens = 0;    // of all answers
  std::vector<SimLane> lanes;  // over total_us
  int64_t embedding_bytes = 0;
  int64_t kv_bytes = 0;
  int64_t steals = 0;
  int64_t returns = 0;
  int64_t preemptions = 0;
  int64_t steps = 0;
  int64_t step_parts = 0;  // sequences, over all steps
  int64_t encode_orders = 0;
  std::vector<LaneTimeline> timeline;
  std::vector<float> each_ttft_ms;  // in the order of arrival; 0: was not answered
};

// kInvalidArgument: the model does not fit a device that has to hold it, or an arm is not complete.
Result<SimResult> simulate(const SimArm& arm, const ModelShape& shape, const Workload& workload,
                           const SimOptions& options);

}  // namespace hs
