#include "tern/apps/common/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tern/apps/common/color.h"
#include "tern/apps/common/html.h"

namespace tern::apps {
namespace {

constexpr int kLeft = 66, kRight = 12, kTop = 28, kBottom = 40;
constexpr size_t kMostDots = 100, kMostPoints = 600, kParts = 300;
constexpr std::array<const char*, 3> kDashes = {"", " stroke-dasharray=\"7 3\"",
                                                " stroke-dasharray=\"2 3\""};

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return low > high; }
};

struct Point {
  double x, y;
};

/// Where numbers lie on the sheet.
struct Plane {
  Range x, y;
  std::vector<double> y_ticks;  // those that the range was stretched to
  int width, height;
  bool logs;
  double px(double v) const {
    return kLeft + (v - x.low) / (x.high - x.low) * (width - kLeft - kRight);
  }
  double py(double v) const {
    auto at = [this](double value) { return logs ? std::log10(value) : value; };
    return height - kBottom -
           (at(v) - at(y.low)) / (at(y.high) - at(y.low)) * (height - kTop - kBottom);
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

// The ranges of all points, stretched to round numbers.
Plane make_plane(const std::vector<std::vector<Point>>& lines, const ChartOptions& o, bool logs) {
  Plane p{{}, {}, {}, o.width, o.height, logs};
  for (const auto& line : lines)
    for (const Point& at : line) {
      p.x.add(at.x);
      p.y.add(at.y);
    }
  if (p.x.empty()) p.x = {0, 1}, p.y = {logs ? 0.1 : 0, 1};
  if (p.x.low == p.x.high) p.x = {p.x.low - 1, p.x.high + 1};
  if (p.y.low == 0 && p.y.high == 0) p.y.high = 1;
  p.y_ticks = logs ? log_ticks(p.y.low, p.y.high) : round_ticks(p.y.low, p.y.high, 5);
  p.y = {p.y_ticks.front(), p.y_ticks.back()};
  return p;
}

std::string number(double v, bool percent) {
  return percent ? fmt::format("{:g}%", std::round(v * 1e4) / 100) : fmt::format("{:.4g}", v);
}

// 250000 as 250k.
std::string short_number(double v) {
  if (std::abs(v) >= 1e6 && std::fmod(v, 1e5) == 0) return fmt::format("{:g}M", v / 1e6);
  if (std::abs(v) >= 1e4 && std::fmod(v, 100) == 0) return fmt::format("{:g}k", v / 1e3);
  return fmt::format("{:g}", v);
}

std::string axes(const Plane& p, const ChartOptions& o) {
  std::string s;
  for (const double t : p.y_ticks)
    s += fmt::format(
        "<line class=\"grid\" x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, o.width - kRight, p.py(t), kLeft - 6, p.py(t) + 4, number(t, o.percent));
  for (const double t : round_ticks(p.x.low, p.x.high, 6))
    if (t >= p.x.low && t <= p.x.high && (!o.whole_x || t == std::floor(t)))
      s += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", p.px(t),
                       o.height - kBottom + 16, short_number(t));
  s += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                   (kLeft + o.width - kRight) / 2, o.height - 6, escape_html(o.x_label));
  return s +
         fmt::format("<text class=\"title\" x=\"8\" y=\"16\">{}</text>\n", escape_html(o.title));
}

const char* dashes(size_t i) { return kDashes[i / kLightTheme.series.size() % kDashes.size()]; }

std::string line(const Series& s, const std::vector<Point>& points, size_t i, const Plane& p,
                 bool percent) {
  const size_t color = i % kLightTheme.series.size();
  std::string path, dots;
  for (const Point& at : points) {
    path += fmt::format("{:.1f},{:.1f} ", p.px(at.x), p.py(at.y));
    if (points.size() <= kMostDots)
      dots += fmt::format(
          "<circle class=\"c{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2\"><title>{} {:g}: {}</title>"
          "</circle>",
          color, p.px(at.x), p.py(at.y), escape_html(s.name), at.x, number(at.y, percent));
  }
  return fmt::format("<polyline class=\"c{}\"{} points=\"{}\"/>{}\n", color, dashes(i), path, dots);
}

std::string sheet(const std::vector<Series>& series, const ChartOptions& o, const char* kind) {
  const bool logs = kind == std::string("logarithmic");
  std::vector<std::vector<Point>> lines;
  for (const Series& s : series) lines.push_back(points_of(s, logs));
  const Plane plane = make_plane(lines, o, logs);
  std::string s = fmt::format(
      "<svg class=\"{}\" width=\"{}\" height=\"{}\" viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">\n",
      kind, o.width, o.height, o.width, o.height, escape_html(o.title));
  s += axes(plane, o);
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

// A name for the switch of a chart.
std::string id_of(const std::string& title) {
  std::string id = "log";
  for (const char c : title) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    id += plain ? std::string(1, c) : fmt::format("-{:x}", static_cast<uint8_t>(c));
  }
  return id;
}

}  // namespace

std::vector<double> round_ticks(double low, double high, int count) {
  if (!(high > low)) {
    double pad = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= pad;
    high += pad;
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
  const bool logs = o.logs && std::any_of(series.begin(), series.end(), [](const Series& s) {
                      return !points_of(s, true).empty();
                    });
  std::string s = "<figure class=\"chart\">\n";
  if (logs)
    s += fmt::format(
        "<input type=\"checkbox\" class=\"switch\" id=\"{0}\"><label for=\"{0}\">log scale"
        "</label>\n",
        id_of(o.title));
  s += sheet(series, o, "plain");
  if (logs) s += sheet(series, o, "logarithmic");
  if (series.size() > 1) s += legend(series);
  return s + "</figure>\n";
}

}  // namespace tern::apps
