// `heteroserve plan cost`: the closed form of every arm.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "app/exit_codes.h"
#include "app/plan_inputs.h"
#include "plan/arms.h"
#include "plan/svg_plot.h"

namespace hs {
namespace {

constexpr auto kModelled = Origin::kModelled;

void add_times(Report& report, const ArmModel& model) {
  Report::Table& table = report.table("times", "How long one request keeps a device busy",
                                      {{"device", "device", "", {}},
                                       {"vision_ms", "vision", "ms", kModelled, 1},
                                       {"language_ms", "language", "ms", kModelled, 1},
                                       {"from", "from times that are", "", {}},
                                       {"batch", "sequences in a step", "", kModelled, 1},
                                       {"kv_tokens", "KV cache", "tokens", kModelled, 0}});
  const auto add = [&](const DeviceModel& device, Pool pool, double vision_us) {
    const LanguageTime& language = model.language(pool);
    const std::string many = device.n_cards() > 1 ? fmt::format("{} x ", device.n_cards()) : "";
    table.add({many + device.card().name, vision_us / 1000,
               language.fits ? language.us / 1000 : std::nan(""), to_string(device.origin()),
               language.fits ? language.batch : std::nan(""), language.kv_tokens});
    if (!language.fits) {
      table.note(fmt::format("The language model with its cache does not fit {}{}.", many,
                             device.card().name));
    }
  };
  add(model.consumer(), Pool::kConsumer, model.times().v_consumer);
  add(model.datacenter(), Pool::kDatacenter, model.times().v_datacenter);
  table.note(
      fmt::format("Embeddings take {:.2f} ms to the datacenter device, keys and values of "
                  "the prompt {:.2f} ms.",
                  model.embedding_copy_us() / 1000, model.kv_copy_us() / 1000));
}

void add_ratios(Report& report, const ArmModel& model) {
  const TierTimes& times = model.times();
  const double share = model.vision_share();
  const double speed = times.vision_speed();
  const double rho = model.consumer().n_cards() * model.consumer().card().price_usd /
                     (model.datacenter().n_cards() * model.datacenter().card().price_usd);
  Report::Table& table = report.table(
      "ratios", "What decides", {{"what", "what", "", {}}, {"value", "value", "", kModelled, 3}});
  table.add({"f_v: share of vision in a request's time on a datacenter device", share});
  table.add({"r: speed of a consumer device at vision, to a datacenter device's", speed});
  table.add({"rho: price of a consumer device, to a datacenter device's", rho});
  table.add({"n_C : n_D without idling", no_idle_ratio(times)});
  table.add({"saving there, f_v (1 - rho / r)", saving_at_no_idle(share, rho, speed)});
  table.note("Against datacenter devices alone, at equal throughput and without stealing.");
}

void add_arms(Report& report, const ArmModel& model, const PlanOptions& options,
              const Catalogue& catalogue, const Workload& workload) {
  const CardsOptions& devices = options.devices;
  const double outputs = means(workload).output_tokens;
  Report::Table& table =
      report.table("arms", "Throughput and cost when there are always more requests",
                   {{"arm", "arm", "", {}},
                    {"devices", "devices", "", {}},
                    {"requests_per_s", "requests", "1/s", kModelled},
                    {"tokens_per_s", "output", "tokens/s", kModelled, 0},
                    {"price_usd", "cards", "USD", {}, 0},
                    {"tokens_per_s_kusd", "output a price", "tokens/s/kUSD", kModelled, 1},
                    {"usd_per_mtoken", "cost", "USD/M tokens", kModelled, 3},
                    {"saving_percent", "saving", "%", kModelled, 1}});
  const Mix homogeneous = mix_of(ArmKind::kDatacenter, devices);
  const double base_rate = model.rate(ArmKind::kDatacenter, homogeneous);
  const double base_price = model.price_usd(ArmKind::kDatacenter, homogeneous);
  for (const ArmKind kind : kAllArms) {
    const Mix mix = mix_of(kind, devices);
    const double rate = model.rate(kind, mix);
    const double price = model.price_usd(kind, mix);
    const double usd_s = model.usd_per_s(kind, mix, catalogue.cost);
    table.add({std::string(to_string(kind)),
               fmt::format("{} + {}", mix.n_consumer, mix.n_datacenter), rate, rate * outputs,
               price, rate * outputs / (price / 1000), usd_s / (rate * outputs) * 1e6,
               rate > 0 && base_rate > 0 ? 100 * saving(price, rate, base_price, base_rate)
                                         : std::nan("")});
  }
  table.note(
      "Devices: consumer + datacenter. Saving: of the cards' price at equal throughput, "
      "against datacenter devices.");
  table.note(fmt::format("Cost: price spread over {} years, and power at {} USD/kWh.",
                         catalogue.cost.years, catalogue.cost.power_usd_kwh));
}

// Cost of a request in every arm, while answers get longer and vision's share smaller.
Result<std::string> cost_plot(const ModelShape& shape, const PlanOptions& options,
                              const Catalogue& catalogue, const PlanDevices& devices) {
  constexpr int32_t kOutputsMax = 1024;
  const CardsOptions& flags = options.devices;
  std::vector<SvgSeries> series;
  for (const ArmKind kind : kAllArms) series.push_back({std::string(to_string(kind)), {}});
  for (int32_t outputs = 1; outputs <= kOutputsMax; outputs *= 2) {
    WorkloadOptions workload_options = options.workload;
    workload_options.output_tokens = outputs;
    const auto workload = load_workload(shape, workload_options);
    if (!workload) return std::unexpected(workload.error());
    const ServingLimits limits = serving_limits(flags, workload->workload);
    const ArmModel model(shape, workload->workload, limits, devices.consumer, devices.datacenter,
                         catalogue.link);
    const double share = model.vision_share();
    const auto cost_of = [&](ArmKind kind) {
      const Mix mix = mix_of(kind, flags);
      return model.usd_per_s(kind, mix, catalogue.cost) / model.rate(kind, mix);
    };
    const double base = cost_of(ArmKind::kDatacenter);
    for (size_t i = 0; i < series.size(); ++i) {
      series[i].points.push_back({share, cost_of(kAllArms[i]) / base});
    }
  }
  return svg_plot(
      {.title = fmt::format("{}, answers of {} to 1 tokens (modelled)", shape.name, kOutputsMax),
       .x_title = "f_v, share of vision in a request's time on a datacenter device",
       .y_title = "cost of a request, datacenter = 1"},
      series);
}

Status make_report(Report& report, const PlanOptions& options) {
  const auto inputs = load_plan_inputs(options);
  if (!inputs) return std::unexpected(inputs.error());
  const auto& [shape, catalogue, workload, devices, profile] = *inputs;
  const ArmModel model(shape, workload.workload, serving_limits(options.devices, workload.workload),
                       devices.consumer, devices.datacenter, catalogue.link);
  report.note(fmt::format("A request: {}", workload.told));
  report.note(
      fmt::format("Efficiencies are {}; decoding and scaling pictures on the CPU is not "
                  "counted, nor is the rest of the machine.",
                  catalogue.efficiency.origin == Origin::kMeasured ? "measured" : "assumed"));
  if (profile) add_profile_table(report, *profile);
  add_times(report, model);
  add_ratios(report, model);
  add_arms(report, model, options, catalogue, workload.workload);
  if (options.svg.empty()) return {};
  if (!options.workload.from_log.empty()) {
    return fail(ErrorKind::kInvalidArgument,
                "--svg: plots the pictures of one kind of request, not --from-log", {}, "--svg");
  }
  const auto plot = cost_plot(shape, options, catalogue, devices);
  if (!plot) return std::unexpected(plot.error());
  return write_text_file(options.svg, *plot, "--svg");
}

}  // namespace

int plan_cost_command(const PlanOptions& options) {
  Report report("plan cost");
  if (const Status made = make_report(report, options); !made) return plan_failure(made.error());
  return print_report(report, options.json);
}

}  // namespace hs
