#include "tern/apps/common/heatmap.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tern/apps/common/chart.h"
#include "tern/core/base/error.h"

namespace tern::apps {
namespace {

constexpr int kTick = 4, kLabels = 22, kBelow = 16, kBarWidth = 256, kBarHeight = 12;
constexpr int kLabelPixels = 26;  // that a number under a picture takes, about

// Round whole numbers below `count`, as many as there is room for.
std::vector<int64_t> whole_ticks(int64_t count, int64_t pixels) {
  std::vector<int64_t> out;
  const int most = static_cast<int>(std::clamp<int64_t>(pixels / kLabelPixels, 1, 6));
  if (count == 1) return {0};
  for (const double t : round_ticks(0, static_cast<double>(count - 1), most))
    if (t == std::floor(t) && t < static_cast<double>(count)) out.push_back(std::llround(t));
  return out;
}

}  // namespace

void diverging_color(double value, uint8_t* rgb) {
  if (std::isnan(value)) {
    rgb[0] = rgb[1] = rgb[2] = 160;
    return;
  }
  constexpr double kBlue[] = {33, 102, 172}, kWhite[] = {250, 250, 250}, kRed[] = {178, 24, 43};
  const double t = std::min(std::abs(value), 1.0);
  const double* end = value < 0 ? kBlue : kRed;
  for (int k = 0; k < 3; ++k)
    rgb[k] = static_cast<uint8_t>(std::lround(kWhite[k] + t * (end[k] - kWhite[k])));
}

std::string html_map(const Bitmap& b, int scale, const std::string& description, int row_scale) {
  if (row_scale == 0) row_scale = scale;
  const int64_t width = b.width * scale, height = b.height * row_scale;
  std::string s = fmt::format(
      "<svg class=\"map\" role=\"img\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "aria-label=\"{2}\">\n<image x=\"{3}\" width=\"{4}\" height=\"{5}\" "
      "preserveAspectRatio=\"none\" href=\"{6}\"/>\n",
      width + kLabels + 1, height + kBelow, escape_html(description), kLabels, width, height,
      png_url(b));
  std::string ticks = fmt::format("M{} 0h{}v{}h-{}z", kLabels, width, height, width);
  auto middle = [](int64_t i, int size) { return (static_cast<double>(i) + .5) * size; };
  for (const int64_t row : whole_ticks(b.height, height)) {
    ticks += fmt::format("M{} {:g}h-{}", kLabels, middle(row, row_scale), kTick - 1);
    s += fmt::format("<text x=\"{}\" y=\"{:g}\" text-anchor=\"end\">{}</text>\n",
                     kLabels - kTick - 1, std::max(middle(row, row_scale) + 3.5, 8.0), row);
  }
  for (const int64_t column : whole_ticks(b.width, width)) {
    ticks += fmt::format("M{:g} {}v{}", kLabels + middle(column, scale), height, kTick - 1);
    s += fmt::format("<text x=\"{:g}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     kLabels + middle(column, scale), height + 13, column);
  }
  return s + fmt::format("<path d=\"{}\"/>\n</svg>", ticks);
}

std::string html_heatmap(const std::vector<float>& values, int64_t rows, int64_t columns,
                         double limit, int scale, const std::string& description) {
  check(std::ssize(values) == rows * columns, "heatmap: {} values for {} x {}", values.size(), rows,
        columns);
  Bitmap b{columns, rows, std::vector<uint8_t>(values.size() * 3)};
  for (size_t i = 0; i < values.size(); ++i)
    diverging_color(limit > 0 ? static_cast<double>(values[i]) / limit : 0, &b.rgb[3 * i]);
  return html_map(b, scale, description);
}

std::string color_bar(const BarTicks& ticks, const std::function<void(double, uint8_t*)>& color) {
  constexpr int kSteps = 64, kMargin = 28;
  Bitmap b{kSteps, 1, std::vector<uint8_t>(3 * kSteps)};
  for (int i = 0; i < kSteps; ++i)
    color(static_cast<double>(i) / (kSteps - 1), &b.rgb[static_cast<size_t>(3 * i)]);
  std::string s = fmt::format(
      "<svg class=\"bar\" role=\"img\" aria-label=\"colour scale\" width=\"{0}\" height=\"30\" "
      "viewBox=\"0 0 {0} 30\">\n<image x=\"{1}\" width=\"{2}\" height=\"{3}\" "
      "preserveAspectRatio=\"none\" href=\"{4}\"/>\n",
      kBarWidth + 2 * kMargin, kMargin, kBarWidth, kBarHeight, png_url(b));
  std::string marks = fmt::format("M{} 0h{}v{}h-{}z", kMargin, kBarWidth, kBarHeight, kBarWidth);
  for (const auto& [at, text] : ticks) {
    const double x = kMargin + at * kBarWidth;
    marks += fmt::format("M{:g} {}v{}", x, kBarHeight, kTick);
    s += fmt::format("<text x=\"{:g}\" y=\"27\" text-anchor=\"middle\">{}</text>\n", x,
                     escape_html(text));
  }
  return s + fmt::format("<path d=\"{}\"/>\n</svg>\n", marks);
}

std::string heatmap_bar(double limit) {
  BarTicks ticks;
  for (const double at : {0.0, 0.25, 0.5, 0.75, 1.0})
    ticks.emplace_back(at, fmt::format("{:.3g}", (2 * at - 1) * limit));
  return color_bar(ticks, [](double t, uint8_t* rgb) { diverging_color(2 * t - 1, rgb); });
}

}  // namespace tern::apps
