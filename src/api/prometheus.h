// Counters and histograms, and the Prometheus text format (0.0.4).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace hs {

class Histogram {
 public:
  // Ascending upper bounds, without infinity; they must outlive the histogram.
  explicit Histogram(std::span<const double> upper_bounds);
  void observe(double value, uint64_t times = 1);

  std::span<const double> upper_bounds() const { return upper_bounds_; }
  // Observations of at most upper_bounds()[i].
  std::vector<uint64_t> cumulative() const;
  uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> upper_bounds_;
  std::vector<uint64_t> counts_;  // one a bucket, not cumulative; the last is beyond all bounds
  uint64_t count_ = 0;
  double sum_ = 0;
};

// Label names and values of one sample.
using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

// Builds one answer of /metrics. Names and label names are ours; values are escaped.
class MetricsText {
 public:
  // `common` labels come first on samples of families that were begun with `labelled`.
  explicit MetricsText(Labels common) : common_(std::move(common)) {}

  void family(std::string_view name, std::string_view type, std::string_view help,
              bool labelled = true);
  void sample(double value, const Labels& labels = {});
  void histogram(const Histogram& histogram, const Labels& labels = {});
  void histogram(std::span<const double> upper_bounds, std::span<const uint64_t> cumulative,
                 uint64_t count, double sum, const Labels& labels = {});

  // A family of one sample.
  void value(std::string_view name, std::string_view type, std::string_view help, double value,
             bool labelled = true) {
    family(name, type, help, labelled);
    sample(value);
  }

  std::string take() { return std::move(out_); }

 private:
  void line(std::string_view suffix, const Labels& labels, std::string_view bound, double value);

  Labels common_;
  bool labelled_ = true;
  std::string name_;
  std::string out_;
};

}  // namespace hs
