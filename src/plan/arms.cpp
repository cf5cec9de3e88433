#include "plan/arms.h"

#include <fmt/format.h>

#include <cmath>

namespace hs {

std::string_view to_string(ArmKind kind) {
  switch (kind) {
    case ArmKind::kDatacenter:
      return "datacenter";
    case ArmKind::kConsumer:
      return "consumer";
    case ArmKind::kStage:
      return "stage";
    case ArmKind::kTwoTiers:
      return "two-tiers";
    case ArmKind::kStealing:
      break;
  }
  return "stealing";
}

bool uses(ArmKind kind, Pool pool) {
  if (kind == ArmKind::kDatacenter) return pool == Pool::kDatacenter;
  if (kind == ArmKind::kConsumer) return pool == Pool::kConsumer;
  return true;
}

ArmModel::ArmModel(const ModelShape& shape, const Workload& workload, const ServingLimits& limits,
                   const DeviceModel& consumer, const DeviceModel& datacenter,
                   const LinkRates& link)
    : consumer_(consumer), datacenter_(datacenter) {
  language_consumer_ = language_time(consumer, workload, limits, LanguagePart::kWhole, true);
  language_datacenter_ = language_time(datacenter, workload, limits, LanguagePart::kWhole, true);
  const LanguageTime alone =
      language_time(datacenter, workload, limits, LanguagePart::kWhole, false);
  prefill_consumer_ = language_time(consumer, workload, limits, LanguagePart::kPrefill, true);
  decode_datacenter_ = language_time(datacenter, workload, limits, LanguagePart::kDecode, false);
  const WorkloadMeans mean = means(workload);
  embedding_copy_us_ = hs::embedding_copy_us(shape, consumer, datacenter, mean.image_rows, link);
  kv_copy_us_ = hs::kv_copy_us(shape, consumer, datacenter, mean.prompt_tokens, link);
  times_ = {.v_consumer = vision_us(consumer, workload),
            .v_datacenter = vision_us(datacenter, workload),
            .l_consumer = language_consumer_.us,
            .l_datacenter = alone.us + embedding_copy_us_};
}

double ArmModel::vision_share() const {
  if (!language_datacenter_.fits) return std::nan("");
  return times_.v_datacenter / (times_.v_datacenter + language_datacenter_.us);
}

double ArmModel::rate(ArmKind kind, const Mix& mix) const {
  double per_us = 0;
  switch (kind) {
    case ArmKind::kDatacenter:
      per_us = homogeneous_rate(mix.n_datacenter, times_.v_datacenter, language_datacenter_.us);
      break;
    case ArmKind::kConsumer:
      per_us = homogeneous_rate(mix.n_consumer, times_.v_consumer, language_consumer_.us);
      break;
    case ArmKind::kStage:
      per_us = stage_rate(mix.n_consumer, mix.n_datacenter, times_.v_consumer, prefill_consumer_.us,
                          decode_datacenter_.us + kv_copy_us_);
      break;
    case ArmKind::kTwoTiers:
      per_us = two_tier_rate(mix.n_consumer, mix.n_datacenter, times_);
      break;
    case ArmKind::kStealing:
      // Without datacenter cards that can hold the model there is nothing to steal from.
      per_us = std::isinf(times_.l_datacenter)
                   ? 0
                   : stealing_rate(mix.n_consumer, mix.n_datacenter, times_);
      break;
  }
  return std::isfinite(per_us) ? per_us * 1e6 : 0;
}

namespace {

int32_t n_cards(const DeviceModel& device, int32_t n, bool used) {
  return used ? n * device.n_cards() : 0;
}

}  // namespace

double ArmModel::price_usd(ArmKind kind, const Mix& mix) const {
  return n_cards(consumer_, mix.n_consumer, uses(kind, Pool::kConsumer)) *
             consumer_.card().price_usd +
         n_cards(datacenter_, mix.n_datacenter, uses(kind, Pool::kDatacenter)) *
             datacenter_.card().price_usd;
}

double ArmModel::power_w(ArmKind kind, const Mix& mix) const {
  return n_cards(consumer_, mix.n_consumer, uses(kind, Pool::kConsumer)) *
             consumer_.card().power_w +
         n_cards(datacenter_, mix.n_datacenter, uses(kind, Pool::kDatacenter)) *
             datacenter_.card().power_w;
}

double ArmModel::usd_per_s(ArmKind kind, const Mix& mix, const CostRates& cost) const {
  constexpr double kSecondsAYear = 365.25 * 86'400;
  const double capital = price_usd(kind, mix) / (cost.years * kSecondsAYear * cost.utilisation);
  return capital + power_w(kind, mix) / 1000 * cost.power_usd_kwh / 3600;
}

SimArm ArmModel::arm(ArmKind kind, const Mix& mix) const {
  SimArm arm;
  arm.name = to_string(kind);
  if (uses(kind, Pool::kConsumer)) {
    arm.consumer.assign(static_cast<size_t>(mix.n_consumer), consumer_);
  }
  if (uses(kind, Pool::kDatacenter)) {
    arm.datacenter.assign(static_cast<size_t>(mix.n_datacenter), datacenter_);
  }
  const bool colocated = kind == ArmKind::kDatacenter || kind == ArmKind::kConsumer;
  arm.partition = colocated                 ? Partition::kColocated
                  : kind == ArmKind::kStage ? Partition::kStage
                                            : Partition::kModality;
  arm.steal = kind == ArmKind::kStealing ? StealMode::kAuto : StealMode::kOff;
  arm.overlap = kind == ArmKind::kTwoTiers || kind == ArmKind::kStealing;
  return arm;
}

}  // namespace hs
