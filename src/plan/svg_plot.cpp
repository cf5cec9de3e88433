#include "plan/svg_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace hs {
namespace {

constexpr double kWidth = 760;
constexpr double kHeight = 440;
constexpr double kLeft = 70;
constexpr double kRight = 170;  // room for the legend
constexpr double kTop = 40;
constexpr double kBottom = 60;
// Okabe and Ito's colours, told apart by colour-blind readers, too.
constexpr const char* kColours[] = {"#0072B2", "#E69F00", "#009E73",
                                    "#D55E00", "#CC79A7", "#56B4E9"};

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

bool drawn(const SvgPoint& point) {
  return std::isfinite(point.x) && std::isfinite(point.y) && point.x >= 0 && point.y >= 0;
}

// 1, 2 or 5 times a power of ten, so that an axis up to `max` has five ticks or a few more.
double tick_step(double max) {
  const double rough = max / 5;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * 0.999) return factor * power;
  }
  return 10 * power;
}

class Plot {
 public:
  explicit Plot(std::span<const SvgSeries> series) {
    for (const SvgSeries& one : series) {
      for (const SvgPoint& point : one.points) {
        if (!drawn(point)) continue;
        x_max_ = std::max(x_max_, point.x);
        y_max_ = std::max(y_max_, point.y);
      }
    }
    x_step_ = tick_step(x_max_ > 0 ? x_max_ : 1);
    y_step_ = tick_step(y_max_ > 0 ? y_max_ : 1);
    x_max_ = std::max(1.0, std::ceil(x_max_ / x_step_ - 1e-9)) * x_step_;
    y_max_ = std::max(1.0, std::ceil(y_max_ / y_step_ - 1e-9)) * y_step_;
  }

  void add_axes(const SvgTitles& titles) {
    out_ += fmt::format(
        R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {} {}" font-family="sans-serif" font-size="12">
<rect width="100%" height="100%" fill="white"/>
<text x="{}" y="22" font-size="15">{}</text>
)",
        kWidth, kHeight, kLeft, escaped(titles.title));
    for (double x = 0; x <= x_max_ * 1.0001; x += x_step_) {
      out_ += fmt::format(R"(<line x1="{0:.1f}" y1="{1}" x2="{0:.1f}" y2="{2}" stroke="#ddd"/>
<text x="{0:.1f}" y="{3}" text-anchor="middle">{4:g}</text>
)",
                          at_x(x), kTop, kHeight - kBottom, kHeight - kBottom + 18,
                          std::round(x / x_step_) * x_step_);
    }
    for (double y = 0; y <= y_max_ * 1.0001; y += y_step_) {
      out_ += fmt::format(R"(<line x1="{1}" y1="{0:.1f}" x2="{2}" y2="{0:.1f}" stroke="#ddd"/>
<text x="{3}" y="{4:.1f}" text-anchor="end">{5:g}</text>
)",
                          at_y(y), kLeft, kWidth - kRight, kLeft - 8, at_y(y) + 4,
                          std::round(y / y_step_) * y_step_);
    }
    out_ += fmt::format(R"svg(<text x="{}" y="{}" text-anchor="middle">{}</text>
<text transform="translate(16 {}) rotate(-90)" text-anchor="middle">{}</text>
)svg",
                        (kLeft + kWidth - kRight) / 2, kHeight - 16, escaped(titles.x_title),
                        (kTop + kHeight - kBottom) / 2, escaped(titles.y_title));
  }

  void add_series(const SvgSeries& series, size_t index) {
    const char* colour = kColours[index % std::size(kColours)];
    std::string points;
    std::string dots;
    for (const SvgPoint& point : series.points) {
      if (!drawn(point)) continue;
      points += fmt::format("{:.1f},{:.1f} ", at_x(point.x), at_y(point.y));
      dots += fmt::format(R"(<circle cx="{:.1f}" cy="{:.1f}" r="3" fill="{}"/>)", at_x(point.x),
                          at_y(point.y), colour);
    }
    const double y = kTop + 10 + 22 * static_cast<double>(index);
    out_ += fmt::format(R"(<polyline points="{}" fill="none" stroke="{}" stroke-width="2"/>
{}
<line x1="{}" y1="{}" x2="{}" y2="{}" stroke="{}" stroke-width="2"/>
<text x="{}" y="{}">{}</text>
)",
                        points, colour, dots, kWidth - kRight + 14, y, kWidth - kRight + 38, y,
                        colour, kWidth - kRight + 44, y + 4, escaped(series.name));
  }

  std::string take() { return out_ + "</svg>\n"; }

 private:
  double at_x(double x) const { return kLeft + x / x_max_ * (kWidth - kLeft - kRight); }
  double at_y(double y) const {
    return kHeight - kBottom - y / y_max_ * (kHeight - kTop - kBottom);
  }

  double x_max_ = 0;
  double y_max_ = 0;
  double x_step_ = 1;
  double y_step_ = 1;
  std::string out_;
};

}  // namespace

std::string svg_plot(const SvgTitles& titles, std::span<const SvgSeries> series) {
  Plot plot(series);
  plot.add_axes(titles);
  for (size_t i = 0; i < series.size(); ++i) plot.add_series(series[i], i);
  return plot.take();
}

}  // namespace hs
