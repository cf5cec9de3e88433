#include "gpu/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "api/json_writer.h"

namespace hs::gpu {
namespace {

std::string quoted(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

std::string_view verdict(const Measurement& m) {
  if (m.target == Measurement::Target::kNone) return "";
  return m.met() ? "OK" : "MISSED";
}

std::string_view sign(const Measurement& m) {
  return m.target == Measurement::Target::kAtLeast ? ">=" : "<=";
}

}  // namespace

bool Measurement::met() const {
  switch (target) {
    case Target::kAtLeast:
      return value >= limit;
    case Target::kAtMost:
      return value <= limit;
    case Target::kNone:
      break;
  }
  return true;
}

void Report::add(std::string_view part, std::string name, double value, std::string_view unit) {
  measurements_.push_back({std::string(part), std::move(name), value, std::string(unit),
                           Measurement::Target::kNone, 0});
}

void Report::at_least(std::string_view part, std::string name, double value, double limit,
                      std::string_view unit) {
  measurements_.push_back({std::string(part), std::move(name), value, std::string(unit),
                           Measurement::Target::kAtLeast, limit});
}

void Report::at_most(std::string_view part, std::string name, double value, double limit,
                     std::string_view unit) {
  measurements_.push_back({std::string(part), std::move(name), value, std::string(unit),
                           Measurement::Target::kAtMost, limit});
}

void Report::miss(std::string_view part, std::string why) {
  gaps_.push_back({std::string(part), std::move(why)});
}

int32_t Report::n_missed() const {
  const auto n = std::ranges::count_if(measurements_, [](const auto& m) { return !m.met(); });
  return static_cast<int32_t>(n + std::ssize(gaps_));
}

std::string Report::table() const {
  std::string out;
  for (const Measurement& m : measurements_) {
    out += fmt::format("{:<10} {:<52} {:>11.4g} {:<8}", m.part, m.name, m.value, m.unit);
    if (m.target != Measurement::Target::kNone)
      out += fmt::format(" {} {:<5g} {}", sign(m), m.limit, verdict(m));
    while (out.ends_with(' ')) out.pop_back();
    out += '\n';
  }
  for (const Gap& gap : gaps_) out += fmt::format("{:<10} not measured: {}\n", gap.part, gap.why);
  const auto n_targets = std::ranges::count_if(
      measurements_, [](const auto& m) { return m.target != Measurement::Target::kNone; });
  return out + fmt::format("{} measurements, {} targets, {} missed or not measured\n",
                           measurements_.size(), n_targets, n_missed());
}

std::string Report::json_lines() const {
  std::string out;
  for (const Measurement& m : measurements_) {
    out += fmt::format(R"({{"part":{},"name":{},"value":{:.6g},"unit":{})", quoted(m.part),
                       quoted(m.name), m.value, quoted(m.unit));
    if (m.target != Measurement::Target::kNone)
      out += fmt::format(R"(,"target":"{} {:g}","result":"{}")", sign(m), m.limit, verdict(m));
    out += "}\n";
  }
  for (const Gap& gap : gaps_)
    out += fmt::format("{{\"part\":{},\"not_measured\":{}}}\n", quoted(gap.part), quoted(gap.why));
  return out +
         fmt::format("{{\"measurements\":{},\"missed\":{}}}\n", measurements_.size(), n_missed());
}

}  // namespace hs::gpu
