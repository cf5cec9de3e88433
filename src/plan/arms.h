// The ways to serve with two kinds of cards: what each makes in closed form, what it costs, and its
// devices for the simulator.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "plan/serving_model.h"
#include "plan/simulator.h"
#include "plan/tier_math.h"

namespace hs {

enum class ArmKind : uint8_t {
  kDatacenter,  // each card does all, as a homogeneous server of today
  kConsumer,    // the same with consumer cards
  kStage,       // pictures and prompts on consumer cards, decode on the others
  kTwoTiers,    // pictures on consumer cards, language on the others
  kStealing,    // the same, and consumer cards take whole language requests
};
inline constexpr ArmKind kAllArms[] = {ArmKind::kDatacenter, ArmKind::kConsumer, ArmKind::kStage,
                                       ArmKind::kTwoTiers, ArmKind::kStealing};
std::string_view to_string(ArmKind kind);
// Whether the arm has such devices.
bool uses(ArmKind kind, Pool pool);

// Devices of each kind; several cards that share every matrix are one device.
struct Mix {
  int32_t n_consumer = 0;
  int32_t n_datacenter = 0;
};

class ArmModel {
 public:
  ArmModel(const ModelShape& shape, const Workload& workload, const ServingLimits& limits,
           const DeviceModel& consumer, const DeviceModel& datacenter, const LinkRates& link);

  const DeviceModel& consumer() const { return consumer_; }
  const DeviceModel& datacenter() const { return datacenter_; }
  // Microseconds of a request; l_datacenter with receiving the embeddings, beside no tower.
  const TierTimes& times() const { return times_; }
  const LanguageTime& language(Pool pool) const {
    return pool == Pool::kConsumer ? language_consumer_ : language_datacenter_;
  }
  // f_v against a datacenter device with a tower, as a homogeneous pool has; not a number where the
  // model does not fit it.
  double vision_share() const;
  double embedding_copy_us() const { return embedding_copy_us_; }
  double kv_copy_us() const { return kv_copy_us_; }
  double prefill_consumer_us() const { return prefill_consumer_.us; }
  double decode_datacenter_us() const { return decode_datacenter_.us; }

  // Requests a second when there are always more; 0 where the model does not fit.
  double rate(ArmKind kind, const Mix& mix) const;
  double price_usd(ArmKind kind, const Mix& mix) const;
  double power_w(ArmKind kind, const Mix& mix) const;
  // Of a second of all cards: their price spread over the years, and power.
  double usd_per_s(ArmKind kind, const Mix& mix, const CostRates& cost) const;
  SimArm arm(ArmKind kind, const Mix& mix) const;

 private:
  DeviceModel consumer_;
  DeviceModel datacenter_;
  TierTimes times_;
  LanguageTime language_consumer_;    // beside a tower, as is
  LanguageTime language_datacenter_;  // this one
  LanguageTime prefill_consumer_;
  LanguageTime decode_datacenter_;
  double embedding_copy_us_ = 0;
  double kv_copy_us_ = 0;
};

}  // namespace hs
