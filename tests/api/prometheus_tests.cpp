// Proves the text format: cumulative buckets, escaped labels, exact counters.
#include <boost/test/unit_test.hpp>
#include <string>

#include "api/prometheus.h"

namespace hs {

BOOST_AUTO_TEST_SUITE(prometheus_tests)

BOOST_AUTO_TEST_CASE(a_histogram_counts_up_to_and_including_its_bounds) {
  static constexpr double kBounds[] = {0.5, 1, 2.5};
  Histogram values(kBounds);
  values.observe(0.5);
  values.observe(0.6);
  values.observe(2.5, 2);
  values.observe(99);
  MetricsText out(Labels{{"engine", "0"}});
  out.family("h", "histogram", "Help.");
  out.histogram(values, {{"kind", "x"}});
  BOOST_TEST(out.take() ==
             "# HELP h Help.\n# TYPE h histogram\n"
             "h_bucket{engine=\"0\",kind=\"x\",le=\"0.5\"} 1\n"
             "h_bucket{engine=\"0\",kind=\"x\",le=\"1\"} 2\n"
             "h_bucket{engine=\"0\",kind=\"x\",le=\"2.5\"} 4\n"
             "h_bucket{engine=\"0\",kind=\"x\",le=\"+Inf\"} 5\n"
             "h_sum{engine=\"0\",kind=\"x\"} 105.1\n"
             "h_count{engine=\"0\",kind=\"x\"} 5\n");
}

BOOST_AUTO_TEST_CASE(label_values_are_escaped_and_large_counters_exact) {
  MetricsText out(Labels{{"model_name", "a\"b\\c\nd"}});
  out.value("c_total", "counter", "H.", 9007199254740991.0);
  out.value("plain", "gauge", "H.", 1, false);
  const std::string text = out.take();
  BOOST_TEST(text.find("c_total{model_name=\"a\\\"b\\\\c\\nd\"} 9007199254740991\n") !=
             std::string::npos);
  BOOST_TEST(text.find("\nplain 1\n") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs
