// How the numbers of a log are called and written on pages: "valid_top1" is "top-1", in percent.
#pragma once

#include <limits>
#include <string>

namespace tern::apps {

/// A metric for which there is no data.
inline constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct MetricText {
  std::string set;   ///< "training", "validation", "test"; empty: the metric's name says none
  std::string name;  ///< "top-1"; of an unknown metric its own name, with spaces
  int digits = 4;    ///< after the point
  bool percent = false;
  bool larger = false;  ///< whether a larger number is better

  /// "validation top-1".
  std::string title() const { return set.empty() ? name : set + " " + name; }
  /// "61.35%"; "-" if the number is NaN.
  std::string write(double value) const;
};

MetricText metric_text(const std::string& metric);

}  // namespace tern::apps
