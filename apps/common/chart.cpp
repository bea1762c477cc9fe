#include "tern/apps/common/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tern/apps/common/color.h"
#include "tern/apps/common/html.h"
#include "tern/core/base/error.h"

namespace tern::apps {
namespace {

constexpr int kSheetWidth = 460, kSheetHeight = 280, kLeft = 66, kRight = 12, kTop = 28,
              kBottom = 40;
constexpr size_t kMostDots = 100, kMostPoints = 600, kParts = 300;
constexpr size_t kMostAxes = 3;  // that axis_choice() and the style sheet know
constexpr std::array<const char*, 3> kDashes = {"", " stroke-dasharray=\"7 3\"",
                                                " stroke-dasharray=\"2 3\""};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return low > high; }
  double size() const { return high - low; }
};

struct Point {
  double x, y;
};

/// Where numbers lie on the sheet.
struct Plane {
  Range x, y;
  std::vector<double> x_ticks, y_ticks;
  bool logs;
  double px(double v) const {
    return kLeft + (v - x.low) / (x.high - x.low) * (kSheetWidth - kLeft - kRight);
  }
  double py(double v) const {
    auto at = [this](double value) { return logs ? std::log10(value) : value; };
    return kSheetHeight - kBottom -
           (at(v) - at(y.low)) / (at(y.high) - at(y.low)) * (kSheetHeight - kTop - kBottom);
  }
};

// What can be shown of a series.
std::vector<Point> points_of(const Series& s, bool logs) {
  std::vector<Point> out;
  for (size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i)
    if (std::isfinite(s.x[i]) && std::isfinite(s.y[i]) && (!logs || s.y[i] > 0))
      out.push_back({s.x[i], s.y[i]});
  return out;
}

// Of many points the least and the largest y in each part of the x axis.
std::vector<Point> thinned(std::vector<Point> points, const Range& x) {
  if (points.size() <= kMostPoints) return points;
  std::vector<Point> out;
  for (size_t i = 0; i < points.size();) {
    auto part_of = [&](const Point& p) {
      return std::floor((p.x - x.low) / (x.high - x.low) * kParts);
    };
    size_t end = i, least = i, largest = i;
    for (; end < points.size() && part_of(points[end]) == part_of(points[i]); ++end) {
      if (points[end].y < points[least].y) least = end;
      if (points[end].y > points[largest].y) largest = end;
    }
    out.push_back(points[std::min(least, largest)]);
    if (least != largest) out.push_back(points[std::max(least, largest)]);
    i = end;
  }
  return out;
}

// The range that a linear axis shows: without a few values that would flatten all others.
Range shown_range(std::vector<double> values) {
  constexpr size_t kFewest = 20;
  constexpr double kShare = .02, kReach = 4, kWorth = 3;
  Range all, near;
  for (const double v : values) all.add(v);
  if (values.size() < kFewest) return all;
  std::sort(values.begin(), values.end());
  const auto cut = static_cast<size_t>(std::ceil(kShare * static_cast<double>(values.size())));
  const double low = values[cut], high = values[values.size() - 1 - cut];
  for (const double v : values)
    if (v >= low - kReach * (high - low) && v <= high + kReach * (high - low)) near.add(v);
  return near.size() > 0 && all.size() > kWorth * near.size() ? near : all;
}

// The ranges of all points, stretched to round numbers.
Plane make_plane(const std::vector<std::vector<Point>>& lines, const ChartOptions& o, bool logs) {
  constexpr double kConstant = 1e-4;  // a smaller relative change is none
  Plane p{.x = {}, .y = {}, .x_ticks = {}, .y_ticks = {}, .logs = logs};
  std::vector<double> values;
  for (const auto& line : lines)
    for (const Point& at : line) {
      p.x.add(at.x);
      values.push_back(at.y);
      if (logs) p.y.add(at.y);
    }
  if (!logs) p.y = shown_range(values);
  if (values.empty()) p.x = {0, 1}, p.y = {logs ? 0.1 : 0, 1};
  if (p.x.low == p.x.high) {  // a single tick in the middle
    p.x_ticks = {p.x.low};
    p.x = {p.x.low - 1, p.x.high + 1};
  } else {
    p.x_ticks = round_ticks(p.x.low, p.x.high, 6);
    std::erase_if(p.x_ticks, [&](double t) {
      return t < p.x.low || t > p.x.high || (o.whole_x && t != std::floor(t));
    });
  }
  if (p.y.size() < kConstant * std::abs(p.y.high)) p.y.low = p.y.high;
  p.y_ticks = logs ? log_ticks(p.y.low, p.y.high) : round_ticks(p.y.low, p.y.high, 5);
  if (o.percent && !logs)
    std::erase_if(p.y_ticks, [limit = 1 + 1e-9, shown = p.y](double t) {
      return (t < 0 && shown.low >= 0) || (t > limit && shown.high <= limit);
    });
  // A tick such as 3 * .2 may be a rounding above a point that it is to be below.
  p.y = {std::min(p.y.low, p.y_ticks.front()), std::max(p.y.high, p.y_ticks.back())};
  return p;
}

// 1e-05 as 1e-5, 250000 as 250k.
std::string short_number(double v) {
  if (std::abs(v) >= 1e6 && std::fmod(v, 1e5) == 0) return fmt::format("{:g}M", v / 1e6);
  if (std::abs(v) >= 1e4 && std::fmod(v, 100) == 0) return fmt::format("{:g}k", v / 1e3);
  std::string s = fmt::format("{:.5g}", v);
  const size_t zero = s.find("e-0");
  return zero == s.npos ? s : s.erase(zero + 2, 1);
}

std::string number(double v, bool percent) {
  return percent ? fmt::format("{:g}%", std::round(v * 1e4) / 100) : short_number(v);
}

// `note` stands beside the name of the x axis.
std::string axes(const Plane& p, const ChartOptions& o, const std::string& note) {
  std::string s;
  for (const double t : p.y_ticks)
    s += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, kSheetWidth - kRight, p.py(t), kLeft - 6, p.py(t) + 4, number(t, o.percent));
  for (const double t : p.x_ticks)
    s += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", p.px(t),
                     kSheetHeight - kBottom + 16, short_number(t));
  s += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                   (kLeft + kSheetWidth - kRight) / 2, kSheetHeight - 6,
                   escape_html(o.x_label) + (o.x_label.empty() || note.empty() ? "" : "; ") + note);
  return s +
         fmt::format("<text class=\"title\" x=\"8\" y=\"16\">{}</text>\n", escape_html(o.title));
}

const char* dashes(size_t i) { return kDashes[i / kLightTheme.series.size() % kDashes.size()]; }

// A dot or, of a point beyond the sheet, a triangle at its end.
std::string mark(const Point& at, const Plane& p, size_t color, const std::string& title) {
  const bool above = at.y > p.y.high;
  const double x = p.px(at.x), y = p.py(std::clamp(at.y, p.y.low, p.y.high));
  const std::string shape =
      above || at.y < p.y.low
          ? fmt::format("<path class=\"c{}\" d=\"M{:.1f} {:.1f}l-5 {}h10z\"", color, x, y,
                        above ? 8 : -8)
          : fmt::format("<circle class=\"c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"", color, x, y);
  return fmt::format("{}><title>{}</title></{}>", shape, title,
                     shape.starts_with("<path") ? "path" : "circle");
}

std::string line(const Series& s, const std::vector<Point>& points, size_t i, const Plane& p,
                 bool percent) {
  const size_t color = i % kLightTheme.series.size();
  std::string path, marks;
  for (const Point& at : points) {
    const double y = std::clamp(at.y, p.y.low, p.y.high);
    path += fmt::format("{:.1f},{:.1f} ", p.px(at.x), p.py(y));
    if (points.size() <= kMostDots || y != at.y)
      marks += mark(at, p, color,
                    fmt::format("{} {:g}: {}", escape_html(s.name), at.x, number(at.y, percent)));
  }
  return fmt::format("<polyline class=\"c{}\"{} points=\"{}\"/>{}\n", color, dashes(i), path,
                     marks);
}

// How many points lie beyond the sheet, and how far.
std::string beyond(const std::vector<std::vector<Point>>& lines, const Plane& p, bool percent) {
  Range all;
  int count = 0;
  for (const auto& line : lines)
    for (const Point& at : line) {
      all.add(at.y);
      count += at.y < p.y.low || at.y > p.y.high;
    }
  if (count == 0) return "";
  std::string s = fmt::format("{} point{} beyond:", count, count == 1 ? "" : "s");
  if (all.low < p.y.low) s += " down to " + number(all.low, percent);
  if (all.high > p.y.high) s += " up to " + number(all.high, percent);
  return s;
}

std::string sheet(const std::vector<Series>& series, const ChartOptions& o, const std::string& kind,
                  bool logs) {
  std::vector<std::vector<Point>> lines;
  for (const Series& s : series) lines.push_back(points_of(s, logs));
  const Plane plane = make_plane(lines, o, logs);
  std::string s = fmt::format(
      "<svg class=\"{0}\" width=\"{1}\" height=\"{2}\" viewBox=\"0 0 {1} {2}\" role=\"img\" "
      "aria-label=\"{3}\">\n",
      kind, kSheetWidth, kSheetHeight, escape_html(o.title));
  s += axes(plane, o, beyond(lines, plane, o.percent));
  for (size_t i = series.size(); i-- > 0;)
    s += line(series[i], thinned(std::move(lines[i]), plane.x), i, plane, o.percent);
  return s + "</svg>\n";
}

std::string legend(const std::vector<Series>& series) {
  std::string s = "<figcaption class=\"legend\">";
  for (size_t i = 0; i < series.size(); ++i)
    s += fmt::format(
        "<span><svg width=\"26\" height=\"10\"><polyline class=\"c{}\"{} points=\"1,5 "
        "25,5\"/></svg> {}</span>\n",
        i % kLightTheme.series.size(), dashes(i), escape_html(series[i].name));
  return s + "</figcaption>";
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  if (!(high > low)) {
    high = std::max(low == 0 ? 1 : 1.2 * low, 0.0);
    low = std::min(1.2 * low, 0.0);
  }
  double raw = (high - low) / count, power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (double m : {1.0, 2.0, 5.0})
    if (m * power >= raw) {
      step = m * power;
      break;
    }
  std::vector<double> ticks;
  auto first = static_cast<int64_t>(std::floor(low / step + 1e-9));
  auto last = static_cast<int64_t>(std::ceil(high / step - 1e-9));
  for (int64_t i = first; i <= last; ++i) ticks.push_back(static_cast<double>(i) * step);
  return ticks;
}

std::vector<double> log_ticks(double low, double high) {
  constexpr double kMostPowers = 7, kFewestPowers = 2;
  const double first = std::floor(std::log10(low) + 1e-9),
               last = std::ceil(std::log10(high) - 1e-9);
  std::vector<double> ticks;
  if (last - first > kFewestPowers) {
    const double step = std::ceil((last - first) / kMostPowers);
    for (double k = first; k < last + step; k += step) ticks.push_back(std::pow(10, k));
    return ticks;
  }
  for (double k = first - 1; k <= last; ++k)
    for (const double m : {1.0, 2.0, 5.0}) ticks.push_back(m * std::pow(10, k));
  while (ticks.size() > 2 && ticks[1] <= low * (1 + 1e-9)) ticks.erase(ticks.begin());
  while (ticks.size() > 2 && ticks[ticks.size() - 2] >= high * (1 - 1e-9)) ticks.pop_back();
  if (ticks.size() > 3) return ticks;
  const std::vector<double> round = round_ticks(low, high, 5);
  return round.front() > 0 ? round : ticks;
}

std::string line_chart(const std::vector<Series>& series, const ChartOptions& o) {
  return axes_chart({{o.x_label, o.whole_x, series}}, o);
}

std::string axes_chart(const std::vector<ChartAxis>& axes, const ChartOptions& options) {
  check(!axes.empty() && axes.size() <= kMostAxes, "axes_chart: {} axes", axes.size());
  const std::vector<Series>& series = axes[0].series;
  const bool logs = options.logs && std::any_of(series.begin(), series.end(), [](const Series& s) {
                      return !points_of(s, true).empty();
                    });
  std::string s = "<figure class=\"chart\">\n";
  if (logs) s += "<label class=\"switch\"><input type=\"checkbox\">log scale</label>\n";
  for (size_t i = 0; i < axes.size(); ++i) {
    ChartOptions o = options;
    o.x_label = axes[i].label;
    o.whole_x = axes[i].whole;
    const std::string axis = axes.size() > 1 ? fmt::format(" axis{}", i) : "";
    s += sheet(axes[i].series, o, "plain" + axis, false);
    if (logs) s += sheet(axes[i].series, o, "logarithmic" + axis, true);
  }
  if (series.size() > 1) s += legend(series);
  return s + "</figure>\n";
}

std::string axis_choice(const std::vector<std::string>& labels, size_t chosen) {
  check(labels.size() == kMostAxes, "axis_choice: {} labels", labels.size());
  std::string s;
  for (size_t i = 0; i < labels.size(); ++i)
    s += fmt::format(
        "<input type=\"radio\" name=\"axis\" id=\"axis{0}\"{1}><label "
        "for=\"axis{0}\">{2}</label>\n",
        i, i == chosen ? " checked" : "", escape_html(labels[i]));
  return s;
}

std::string chart_grid(std::vector<std::string> charts) {
  std::erase(charts, "");
  if (charts.empty()) return "";
  // With room for 2, 3 and 4 columns: how many there are, and how many the first chart takes.
  std::string style;
  const size_t n = charts.size();
  for (size_t room = 2; room <= 4; ++room) {
    size_t columns = std::min(room, n);
    while (columns > 2 && n % columns == 1) --columns;
    const bool alone = columns == 2 && n % 2 == 1;
    style += fmt::format("--columns{0}:{1};--first{0}:{2};", room, columns, alone ? 2 : 1);
  }
  std::string s = fmt::format("<div class=\"charts\" style=\"{}\">\n", style);
  for (const std::string& chart : charts) s += chart;
  return s + "</div>\n";
}

}  // namespace tern::apps
