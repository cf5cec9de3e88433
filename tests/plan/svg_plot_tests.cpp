// A plot is one well-formed picture: every series drawn and named, points inside the frame, words
// escaped.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>

#include "plan/svg_plot.h"

namespace hs::test {
namespace {

size_t count(const std::string& text, const std::string& part) {
  size_t n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(svg_plot_tests)

BOOST_AUTO_TEST_CASE(every_series_has_a_line_its_points_and_a_name) {
  const SvgSeries series[] = {{"first", {{0, 1}, {0.5, 2}, {1, 4}}}, {"a < b & c", {{0, 3}}}};
  const std::string svg = svg_plot({"title", "x", "y"}, series);
  BOOST_TEST(svg.starts_with("<svg "));
  BOOST_TEST(svg.ends_with("</svg>\n"));
  BOOST_TEST(count(svg, "<polyline ") == 2U);
  BOOST_TEST(count(svg, "<circle ") == 4U);
  BOOST_TEST(svg.find(">first</text>") != std::string::npos);
  BOOST_TEST(svg.find("a &lt; b &amp; c") != std::string::npos);
  // x = 0 is the left edge, y = 4 of an axis to 4 the top, y = 2 halfway.
  BOOST_TEST(svg.find("points=\"70.0,295.0 330.0,210.0 590.0,40.0 \"") != std::string::npos, svg);
}

BOOST_AUTO_TEST_CASE(points_that_mean_nothing_are_left_out) {
  const SvgSeries series[] = {{"s", {{0, std::nan("")}, {-1, 2}, {1, INFINITY}, {1, 1}}}};
  const std::string svg = svg_plot({"t", "x", "y"}, series);
  BOOST_TEST(count(svg, "<circle ") == 1U);
  BOOST_TEST(svg.find("nan") == std::string::npos);
  BOOST_TEST(svg_plot({"t", "x", "y"}, {}).ends_with("</svg>\n"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace hs::test
