#include "tern/apps/common/chart.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "tern/apps/common/html.h"

namespace tern::apps {
namespace {

constexpr const char* kColors[] = {"#0b6bcb", "#d1495b", "#2e933c", "#8a4fbe", "#c77700"};
constexpr int kLeft = 66, kRight = 12, kTop = 28, kBottom = 40;

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void add(double v) {
    low = std::min(low, v);
    high = std::max(high, v);
  }
  bool empty() const { return low > high; }
};

bool shown(const Series& s, size_t i) {
  return i < s.y.size() && std::isfinite(s.x[i]) && std::isfinite(s.y[i]);
}

/// Where numbers lie on the sheet.
struct Plane {
  Range x, y;
  std::vector<double> y_ticks;  // those that the range was stretched to
  int width, height;
  double px(double v) const {
    return kLeft + (v - x.low) / (x.high - x.low) * (width - kLeft - kRight);
  }
  double py(double v) const {
    return height - kBottom - (v - y.low) / (y.high - y.low) * (height - kTop - kBottom);
  }
};

// The ranges of all points, stretched to round numbers.
Plane make_plane(const std::vector<Series>& series, const ChartOptions& o) {
  Plane p{{}, {}, {}, o.width, o.height};
  for (const Series& s : series)
    for (size_t i = 0; i < s.x.size(); ++i)
      if (shown(s, i)) {
        p.x.add(s.x[i]);
        p.y.add(s.y[i]);
      }
  if (p.x.empty()) p.x = p.y = {0, 1};
  if (p.x.low == p.x.high) p.x = {p.x.low - 1, p.x.high + 1};
  p.y_ticks = round_ticks(p.y.low, p.y.high, 5);
  p.y = {p.y_ticks.front(), p.y_ticks.back()};
  return p;
}

std::string number(double v, bool percent) {
  return percent ? fmt::format("{:g}%", std::round(v * 1e4) / 100) : fmt::format("{:g}", v);
}

std::string axes(const Plane& p, const ChartOptions& o) {
  std::string s;
  for (double t : p.y_ticks)
    s += fmt::format(
        "<line x1=\"{0}\" x2=\"{1}\" y1=\"{2:.1f}\" y2=\"{2:.1f}\" stroke=\"#e3e3e3\"/>"
        "<text x=\"{3}\" y=\"{4:.1f}\" text-anchor=\"end\">{5}</text>\n",
        kLeft, o.width - kRight, p.py(t), kLeft - 6, p.py(t) + 4, number(t, o.percent));
  for (double t : round_ticks(p.x.low, p.x.high, 6))
    if (t >= p.x.low && t <= p.x.high && (!o.whole_x || t == std::floor(t)))
      s += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:g}</text>\n", p.px(t),
                       o.height - kBottom + 16, t);
  s += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                   (kLeft + o.width - kRight) / 2, o.height - 6, escape_html(o.x_label));
  s += fmt::format("<text x=\"{}\" y=\"16\" style=\"font-weight:600\">{}</text>\n", kLeft,
                   escape_html(o.title));
  return s;
}

std::string line(const Series& s, const char* color, const Plane& p, bool percent) {
  std::string points, dots;
  for (size_t i = 0; i < s.x.size(); ++i) {
    if (!shown(s, i)) continue;
    points += fmt::format("{:.1f},{:.1f} ", p.px(s.x[i]), p.py(s.y[i]));
    dots += fmt::format(
        "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\"><title>{} {:g}: {}</title>"
        "</circle>",
        p.px(s.x[i]), p.py(s.y[i]), color, escape_html(s.name), s.x[i], number(s.y[i], percent));
  }
  return fmt::format(
      "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" points=\"{}\"/>{}\n", color,
      points, dots);
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

std::string line_chart(const std::vector<Series>& series, const ChartOptions& o) {
  Plane plane = make_plane(series, o);
  std::string s = fmt::format(
      "<svg width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" role=\"img\" "
      "aria-label=\"{2}\">\n",
      o.width, o.height, escape_html(o.title));
  s += axes(plane, o);
  int legend = o.width - kRight;
  for (size_t i = series.size(); i-- > 0;) {
    const char* color = kColors[i % std::size(kColors)];
    s += line(series[i], color, plane, o.percent);
    s += fmt::format("<text x=\"{}\" y=\"16\" text-anchor=\"end\" style=\"fill:{}\">{}</text>\n",
                     legend, color, escape_html(series[i].name));
    legend -= 14 + 7 * static_cast<int>(series[i].name.size());
  }
  return s + "</svg>\n";
}

}  // namespace tern::apps
