// Line charts as SVG, for pages of html.h, whose style sheet gives the colours.
#pragma once

#include <string>
#include <vector>

namespace tern::apps {

struct Series {
  std::string name;
  std::vector<double> x, y;  ///< points; NaN and infinity are left out
  bool smooth = false;       ///< draws a moving average, and the points pale
};

/// Height of a chart's plotting area in pixels: of the chart that leads a page, of other charts,
/// and of minor ones.
inline constexpr int kLeading = 300, kCommon = 212, kMinor = 96;

struct ChartOptions {
  std::string title = {}, x_label = {};
  bool whole_x = false;  ///< x is a count: only whole ticks are labelled, if there are any
  bool percent = false;  ///< y is a share of 1, shown in percent
  bool logs = false;     ///< adds a switch to a logarithmic y axis, if a value is above 0
  int height = kCommon;
};

/// A <figure>: axes with round ticks, one line per series, a legend below if there are several.
/// - A smooth series of at least 20 points is drawn as its moving average over 5 % of the points.
/// - Up to 100 points have dots. The page's script shows the values under the pointer. More than
///   600 points are thinned to the smallest and the largest in each of 300 parts of the x axis.
/// - With at least 20 points, up to 4 % of them that lie far outside (a spike of the loss) do not
///   stretch a linear y axis: triangles at its ends mark them, and a line below counts them.
/// - The figure fills its container; its text keeps its size. The switch needs no script.
std::string line_chart(const std::vector<Series>& series, const ChartOptions& options);

/// The same lines over another x: "epoch", "minutes".
struct ChartAxis {
  std::string label;
  bool whole = true;  ///< as whole_x
  std::vector<Series> series;
};
/// A chart with one sheet per axis; axis_choice() selects the sheet shown. REQUIRES: each axis has
/// the same series.
std::string axes_chart(const std::vector<ChartAxis>& axes, const ChartOptions& options);
/// Radio buttons that choose the axis of all later charts on the page; `chosen` is selected first.
std::string axis_choice(const std::vector<std::string>& labels, size_t chosen = 0);

/// A large chart, with small ones (kMinor) to its right, or below it on narrow screens.
std::string leading_charts(const std::string& first, std::vector<std::string> others);

/// Charts in a grid of as many columns as fit, but so that the last row does not hold a single
/// chart. Empty texts are left out.
std::string chart_grid(std::vector<std::string> charts);

/// About `count` round numbers that cover [low, high]. If low == high, they run from 0 to beyond
/// it.
std::vector<double> round_ticks(double low, double high, int count);

/// Numbers 1, 2 or 5 times a power of ten that cover [low, high], at most about ten of them; round
/// numbers if there would be too few. REQUIRES: 0 < low <= high.
std::vector<double> log_ticks(double low, double high);

}  // namespace tern::apps
