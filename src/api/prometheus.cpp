#include "api/prometheus.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace hs {
namespace {

void append_label_value(std::string& out, std::string_view value) {
  for (const char c : value) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
}

void append_label(std::string& out, bool& first, std::string_view name, std::string_view value) {
  out += first ? '{' : ',';
  first = false;
  out += name;
  out += "=\"";
  append_label_value(out, value);
  out += '"';
}

}  // namespace

Histogram::Histogram(std::span<const double> upper_bounds)
    : upper_bounds_(upper_bounds), counts_(upper_bounds.size() + 1) {}

void Histogram::observe(double value, uint64_t times) {
  const auto bucket = std::ranges::lower_bound(upper_bounds_, value) - upper_bounds_.begin();
  counts_[static_cast<size_t>(bucket)] += times;
  count_ += times;
  sum_ += value * static_cast<double>(times);
}

std::vector<uint64_t> Histogram::cumulative() const {
  std::vector<uint64_t> out(upper_bounds_.size());
  uint64_t total = 0;
  for (size_t i = 0; i < out.size(); ++i) out[i] = total += counts_[i];
  return out;
}

void MetricsText::family(std::string_view name, std::string_view type, std::string_view help,
                         bool labelled) {
  name_ = name;
  labelled_ = labelled;
  fmt::format_to(std::back_inserter(out_), "# HELP {} {}\n# TYPE {} {}\n", name, help, name, type);
}

void MetricsText::sample(double value, const Labels& labels) {
  line("", labels, {}, value);
}

void MetricsText::histogram(const Histogram& histogram, const Labels& labels) {
  this->histogram(histogram.upper_bounds(), histogram.cumulative(), histogram.count(),
                  histogram.sum(), labels);
}

void MetricsText::histogram(std::span<const double> upper_bounds,
                            std::span<const uint64_t> cumulative, uint64_t count, double sum,
                            const Labels& labels) {
  for (size_t i = 0; i < upper_bounds.size(); ++i)
    line("_bucket", labels, fmt::format("{}", upper_bounds[i]), static_cast<double>(cumulative[i]));
  line("_bucket", labels, "+Inf", static_cast<double>(count));
  line("_sum", labels, {}, sum);
  line("_count", labels, {}, static_cast<double>(count));
}

void MetricsText::line(std::string_view suffix, const Labels& labels, std::string_view bound,
                       double value) {
  out_ += name_;
  out_ += suffix;
  bool first = true;
  if (labelled_)
    for (const auto& [name, text] : common_) append_label(out_, first, name, text);
  for (const auto& [name, text] : labels) append_label(out_, first, name, text);
  if (!bound.empty()) append_label(out_, first, "le", bound);
  if (!first) out_ += '}';
  fmt::format_to(std::back_inserter(out_), " {}\n", value);
}

}  // namespace hs
