// Line charts as SVG, for pages of html.h: their colours come from its style sheet.
#pragma once

#include <string>
#include <vector>

namespace tern::apps {

struct Series {
  std::string name;
  std::vector<double> x, y;  ///< points; those that are not finite are left out
};

struct ChartOptions {
  std::string title = {}, x_label = {};
  int width = 460, height = 280;
  bool whole_x = false;  ///< x counts something: only whole numbers are written
  bool percent = false;  ///< y is a share of 1, shown in percent
  bool logs = false;     ///< with a switch to a logarithmic y, if a value is above 0
};

/// A <figure>: axes with round ticks, one line a series, a legend below where there are several.
/// Up to a hundred points have dots that say their values on hovering; of more than 600, the least
/// and the largest in each of 300 parts of the x axis are drawn. The figure is as wide as what it
/// stands in; the switch needs no script, and `title` to be the only one of the page.
std::string line_chart(const std::vector<Series>& series, const ChartOptions& options);

/// Round numbers that cover [low, high], about `count` of them.
std::vector<double> round_ticks(double low, double high, int count);

/// Numbers 1, 2 or 5 times a power of ten that cover [low, high], at most about ten of them; where
/// they would be few, round ones. REQUIRES: 0 < low <= high.
std::vector<double> log_ticks(double low, double high);

}  // namespace tern::apps
