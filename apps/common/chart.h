// Line charts as SVG.
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
};

/// An <svg> element: axes with round ticks, one line a series, a legend, values on hovering.
std::string line_chart(const std::vector<Series>& series, const ChartOptions& options);

/// Round numbers that cover [low, high], about `count` of them.
std::vector<double> round_ticks(double low, double high, int count);

}  // namespace tern::apps
