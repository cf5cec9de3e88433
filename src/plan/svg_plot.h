// Lines over an x axis as an SVG picture that stands alone: axes from zero, ticks at round numbers,
// a legend in the colours of the lines.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace hs {

struct SvgPoint {
  double x = 0;
  double y = 0;
};

struct SvgSeries {
  std::string name;
  std::vector<SvgPoint> points;
};

struct SvgTitles {
  std::string title;
  std::string x_title;
  std::string y_title;
};

// Points that are not finite or negative are left out.
std::string svg_plot(const SvgTitles& titles, std::span<const SvgSeries> series);

}  // namespace hs
