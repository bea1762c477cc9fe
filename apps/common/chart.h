// Line charts as SVG, for pages of html.h: their colours come from its style sheet.
#pragma once

#include <string>
#include <vector>

namespace tern::apps {

struct Series {
  std::string name;
  std::vector<double> x, y;  ///< points; those that are not finite are left out
  bool smooth = false;       ///< draws the mean of neighbouring points, and the points pale
};

/// Pixels of a sheet without what stands around it: of the chart that leads a page, of others, and
/// of those that matter less.
inline constexpr int kLeading = 300, kCommon = 212, kMinor = 96;

struct ChartOptions {
  std::string title = {}, x_label = {};
  bool whole_x = false;  ///< x counts something: only whole numbers are written, if there are any
  bool percent = false;  ///< y is a share of 1, shown in percent
  bool logs = false;     ///< with a switch to a logarithmic y, if a value is above 0
  int height = kCommon;
};

/// A <figure>: axes with round ticks, one line a series, a legend below where there are several.
/// A smooth series of at least 20 points has a line of means over 5 % of its points each. Up to a
/// hundred points have dots that say their values on hovering; of more than 600, the least
/// and the largest in each of 300 parts of the x axis are drawn. Of at least 20 points, up to 4 in
/// 100 that lie far beyond the others (a spike of the loss) do not stretch a linear y axis:
/// triangles at its ends mark them, and a line below says how many there are. The figure is as wide
/// as what it stands in, and its text has one size in all widths; the switch needs no script.
std::string line_chart(const std::vector<Series>& series, const ChartOptions& options);

/// The same lines over another x: "epoch", "minutes".
struct ChartAxis {
  std::string label;
  bool whole = true;  ///< as whole_x
  std::vector<Series> series;
};
/// A chart with a sheet for each axis, of which axis_choice() shows one. REQUIRES: each axis has
/// the same series.
std::string axes_chart(const std::vector<ChartAxis>& axes, const ChartOptions& options);
/// Radio buttons that choose the axis of all charts behind them on the page; `chosen` at first.
std::string axis_choice(const std::vector<std::string>& labels, size_t chosen = 0);

/// A large chart, with small ones (kMinor) to its right, or below it where there is no room.
std::string leading_charts(const std::string& first, std::vector<std::string> others);

/// Charts beside each other, in as many columns as there is room for and as leave none alone in the
/// last row. Empty texts are left out.
std::string chart_grid(std::vector<std::string> charts);

/// Round numbers that cover [low, high], about `count` of them; of one number, from 0 to beyond it.
std::vector<double> round_ticks(double low, double high, int count);

/// Numbers 1, 2 or 5 times a power of ten that cover [low, high], at most about ten of them; where
/// they would be few, round ones. REQUIRES: 0 < low <= high.
std::vector<double> log_ticks(double low, double high);

}  // namespace tern::apps
