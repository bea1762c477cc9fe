// Draws line charts as SVG: chooses ranges and ticks, thins and smooths points, and lays charts out
// in a grid.
#include "tern/apps/common/pages/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tern/apps/common/pages/color.h"
#include "tern/apps/common/pages/html.h"
#include "tern/core/base/error.h"

namespace tern::apps {
namespace {

constexpr double kSheet = 1000;  // width and height of the box that lines are drawn in
constexpr size_t kMostDots = 100, kMostPoints = 600, kParts = 300;
constexpr size_t kMostAxes = 3;  // limit of axis_choice() and of the style sheet
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

/// Where numbers lie on the sheet: from 0 to kSheet, to the right and down.
struct Plane {
  Range x, y;
  std::vector<double> x_ticks, y_ticks;
  bool logs;
  double px(double v) const { return (v - x.low) / (x.high - x.low) * kSheet; }
  double py(double v) const {
    auto at = [this](double value) { return logs ? std::log10(value) : value; };
    return (at(y.high) - at(v)) / (at(y.high) - at(y.low)) * kSheet;
  }
};

// The finite points of a series; on a logarithmic axis only those with y > 0.
std::vector<Point> points_of(const Series& s, bool logs) {
  std::vector<Point> out;
  for (size_t i = 0; i < std::min(s.x.size(), s.y.size()); ++i)
    if (std::isfinite(s.x[i]) && std::isfinite(s.y[i]) && (!logs || s.y[i] > 0))
      out.push_back({s.x[i], s.y[i]});
  return out;
}

// The moving average over a window of kWindow times the number of points, narrower at the ends.
std::vector<Point> smoothed(const std::vector<Point>& points) {
  constexpr double kWindow = .05;
  const size_t n = points.size();
  const auto half =
      static_cast<size_t>(std::max(1.0, std::round(kWindow / 2 * static_cast<double>(n))));
  std::vector<double> sums = {0};
  for (const Point& p : points) sums.push_back(sums.back() + p.y);
  std::vector<Point> out;
  for (size_t i = 0; i < n; ++i) {
    const size_t begin = i > half ? i - half : 0, end = std::min(i + half + 1, n);
    out.push_back({points[i].x, (sums[end] - sums[begin]) / static_cast<double>(end - begin)});
  }
  return out;
}

bool is_smoothed(const Series& s, size_t points) {
  constexpr size_t kFewest = 20;
  return s.smooth && points >= kFewest;
}

// Thins many points: keeps the smallest and the largest y in each part of the x axis.
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

// The range of a linear axis. It leaves out a few outliers that would flatten all other values.
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
  constexpr double kConstant = 1e-4;  // a smaller relative change counts as none
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
    std::erase_if(p.x_ticks, [&](double t) { return t < p.x.low || t > p.x.high; });
    const auto is_whole = [](double t) { return t == std::floor(t); };
    if (o.whole_x && std::any_of(p.x_ticks.begin(), p.x_ticks.end(), is_whole))
      std::erase_if(p.x_ticks, [&](double t) { return !is_whole(t); });
  }
  if (p.y.size() < kConstant * std::abs(p.y.high)) p.y.low = p.y.high;
  p.y_ticks = logs ? log_ticks(p.y.low, p.y.high) : round_ticks(p.y.low, p.y.high, 5);
  if (o.percent && !logs)
    std::erase_if(p.y_ticks, [limit = 1 + 1e-9, shown = p.y](double t) {
      return (t < 0 && shown.low >= 0) || (t > limit && shown.high <= limit);
    });
  // Rounding can put the first tick, such as 3 * .2, just above the smallest point.
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

// A place on the sheet as a percentage, "12.34%", which does not depend on its size in pixels.
std::string share(double place) { return fmt::format("{:.2f}%", 100 * place / kSheet); }

// Returns n if there is room to label every n-th tick.
size_t every(size_t ticks, int height) {
  constexpr int kLabel = 18;  // pixels of a label
  const auto most = static_cast<size_t>(std::max(2, height / kLabel));
  return (ticks + most - 1) / most;
}

// Draws ticks and labels around the sheet, in the margins that the style sheet leaves. `note`
// stands beside the name of the x axis.
std::string axes(const Plane& p, const ChartOptions& o, const std::string& note) {
  std::string s;
  const size_t step = every(p.y_ticks.size(), o.height);
  for (size_t i = 0; i < p.y_ticks.size(); i += step)
    s += fmt::format(
        "<line class=\"grid\" x2=\"100%\" y1=\"{0}\" y2=\"{0}\"/>"
        "<text x=\"-6\" y=\"{0}\" dy=\"4\" text-anchor=\"end\">{1}</text>\n",
        share(p.py(p.y_ticks[i])), number(p.y_ticks[i], o.percent));
  for (const double t : p.x_ticks)
    s += fmt::format("<text x=\"{}\" y=\"100%\" dy=\"16\" text-anchor=\"middle\">{}</text>\n",
                     share(p.px(t)), short_number(t));
  return s + fmt::format(
                 "<text x=\"50%\" y=\"100%\" dy=\"33\" text-anchor=\"middle\">{}</text>\n",
                 escape_html(o.x_label) + (o.x_label.empty() || note.empty() ? "" : "; ") + note);
}

const char* dashes(size_t i) { return kDashes[i / kLightTheme.series.size() % kDashes.size()]; }

// A dot, or a triangle at the edge for a point outside the sheet.
std::string mark(const Point& at, const Plane& p, size_t color) {
  const bool above = at.y > p.y.high;
  const std::string x = share(p.px(at.x)), y = share(p.py(std::clamp(at.y, p.y.low, p.y.high)));
  if (!above && at.y >= p.y.low)
    return fmt::format("<circle class=\"c{}\" cx=\"{}\" cy=\"{}\" r=\"2\"/>", color, x, y);
  return fmt::format("<svg x=\"{}\" y=\"{}\"><path class=\"c{}\" d=\"M0 0l-5 {}h10z\"/></svg>", x,
                     y, color, above ? 8 : -8);
}

// A line in a box that stretches to the sheet; the width of the line stays. Its name and the texts
// of its points are for the script of the page.
std::string polyline(const std::vector<Point>& points, size_t i, const Plane& p,
                     const ChartOptions& o, const char* kind, const std::string& name) {
  std::string path, values;
  for (const Point& at : points) {
    path += fmt::format("{:.1f},{:.1f} ", p.px(at.x), p.py(std::clamp(at.y, p.y.low, p.y.high)));
    values += (values.empty() ? "" : " ") + fmt::format("{:.{}g}", at.x, o.whole_x ? 12 : 6) + ":" +
              number(at.y, o.percent);
  }
  return fmt::format(
      "<svg viewBox=\"0 0 {0:g} {0:g}\" preserveAspectRatio=\"none\"><polyline "
      "class=\"c{1}{2}\"{3} points=\"{4}\"{5}/></svg>",
      kSheet, i % kLightTheme.series.size(), kind, dashes(i), path,
      points.empty()
          ? ""
          : fmt::format(" data-name=\"{}\" data-values=\"{}\"", escape_html(name), values));
}

std::string line(const Series& s, const std::vector<Point>& all, size_t i, const Plane& p,
                 const ChartOptions& o) {
  const std::vector<Point> points = thinned(all, p.x);
  std::string marks;
  for (const Point& at : points)
    if (points.size() <= kMostDots || at.y > p.y.high || at.y < p.y.low)
      marks += mark(at, p, i % kLightTheme.series.size());
  if (!is_smoothed(s, all.size())) return polyline(points, i, p, o, "", s.name) + marks + "\n";
  return polyline(points, i, p, o, " raw", s.name) +
         polyline(thinned(smoothed(all), p.x), i, p, o, "", s.name + ", mean") +
         (points.size() <= kMostDots ? "<g class=\"raw\">" + marks + "</g>" : marks) + "\n";
}

// Says how many points lie outside the sheet, and how far.
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
  std::string s =
      fmt::format("<svg class=\"{}\" height=\"{}\" role=\"img\" aria-label=\"{}\" data-x=\"{}\">\n",
                  kind, o.height, escape_html(o.title), escape_html(o.x_label));
  s += axes(plane, o, beyond(lines, plane, o.percent));
  for (size_t i = series.size(); i-- > 0;) s += line(series[i], lines[i], i, plane, o);
  return s + "</svg>\n";
}

// Names the lines, if there are several, and explains the pale ones.
std::string legend(const std::vector<Series>& series) {
  const bool pale = std::any_of(series.begin(), series.end(), [](const Series& s) {
    return is_smoothed(s, points_of(s, false).size());
  });
  if (series.size() < 2 && !pale) return "";
  std::string s = "<figcaption class=\"legend\">";
  for (size_t i = 0; series.size() > 1 && i < series.size(); ++i)
    s += fmt::format(
        "<span><svg width=\"26\" height=\"10\"><polyline class=\"c{}\"{} points=\"1,5 "
        "25,5\"/></svg> {}</span>\n",
        i % kLightTheme.series.size(), dashes(i), escape_html(series[i].name));
  if (pale) s += "<span>pale: as logged; strong: mean over 5 % of the points</span>\n";
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
  // An axis may have no points yet: that of epochs, in the first one.
  const auto points = [](const ChartAxis& axis, bool log) {
    size_t count = 0;
    for (const Series& s : axis.series) count += points_of(s, log).size();
    return count;
  };
  const ChartAxis& fullest = *std::max_element(
      axes.begin(), axes.end(),
      [&](const ChartAxis& a, const ChartAxis& b) { return points(a, false) < points(b, false); });
  const bool logs = options.logs && points(fullest, true) > 0;
  std::string s = fmt::format("<figure class=\"chart\">\n<div class=\"top\"><b>{}</b>",
                              escape_html(options.title));
  if (logs) s += "<label class=\"switch\"><input type=\"checkbox\">log scale</label>";
  s += "</div>\n";
  for (size_t i = 0; i < axes.size(); ++i) {
    ChartOptions o = options;
    o.x_label = axes[i].label;
    o.whole_x = axes[i].whole;
    const std::string axis = axes.size() > 1 ? fmt::format(" axis{}", i) : "";
    s += sheet(axes[i].series, o, "plain" + axis, false);
    if (logs) s += sheet(axes[i].series, o, "logarithmic" + axis, true);
  }
  return s + legend(fullest.series) + "</figure>\n";
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

std::string leading_charts(const std::string& first, std::vector<std::string> others) {
  std::erase(others, "");
  if (first.empty()) return chart_grid(std::move(others));
  std::string s = "<div class=\"leading\">\n" + first;
  for (const std::string& chart : others) s += chart;
  return s + "</div>\n";
}

std::string chart_grid(std::vector<std::string> charts) {
  std::erase(charts, "");
  if (charts.empty()) return "";
  // For widths of 2, 3 and 4 columns: the columns to use, and how many of them the first chart
  // spans.
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
