#include "tern/apps/train_cifar/report_pictures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tern/apps/common/heatmap.h"
#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"

namespace tern::apps::train_cifar {
namespace {

constexpr int kLarge = 5, kSmall = 3;  // screen pixels to a pixel
// The reddest is at least so many even shares: a head that looks everywhere stays grey.
constexpr double kLeastReddest = 4;

// A grey, the redder the nearer `share` is to 1.
Rgb reddened(double grey, double share) {
  constexpr double kMost = 0.75;
  constexpr Rgb kRed = {214, 16, 30};
  const auto g = static_cast<uint8_t>(std::lround(grey));
  return mix({g, g, g}, kRed, kMost * share);
}

// "Layer 2, head 1: 0.3 % to 4 % per patch"
std::string description(const models::PatchMap& m, int64_t map, const Tensor& shares) {
  std::string text = m.title;
  if (!m.labels.empty()) text += ", " + m.labels.at(static_cast<size_t>(map));
  return text + fmt::format(": {:.3g} % to {:.3g} % per patch", 100 * min(shares).item(),
                            100 * max(shares).item());
}

const Prediction& pictured(const ReportData& d, int64_t image) {
  return d.predictions.at(static_cast<size_t>(image));
}

// One map as a picture that a click makes large; below it its range, where there is room.
std::string overlay_image(const ReportData& d, int64_t image, const models::PatchMap& m,
                          int64_t map, double most, bool is_small) {
  const Tensor shares = m.values[image][map];
  const Bitmap b = overlay(pictured(d, image).picture, shares.to_vector<float>(), shares.size(0),
                           shares.size(1), most);
  const std::string text = description(m, map, shares);
  const std::string id = fmt::format("picture{}-{}-{}", image, &m - d.patches.maps.data(), map);
  const std::string picture = html_zoom(html_image(b, is_small ? kSmall : kLarge, text), id, text);
  return is_small ? picture : html_figure(picture, text);
}

// A line a layer, its maps across.
std::string table(const ReportData& d, int64_t image, double most) {
  std::string s = "<div class=\"heads\"><table>\n";
  const std::vector<std::string>* heading = nullptr;
  for (const models::PatchMap& m : d.patches.maps) {
    if (m.labels.empty()) continue;
    if (!heading || *heading != m.labels) {
      heading = &m.labels;
      s += "<tr><th></th>";
      for (const std::string& label : *heading) s += fmt::format("<th>{}</th>", escape_html(label));
      s += "</tr>\n";
    }
    s += fmt::format("<tr><th>{}</th>\n", escape_html(m.title));
    for (int64_t i = 0; i < m.values.size(1); ++i)
      s += fmt::format("<td>{}</td>\n", overlay_image(d, image, m, i, most, true));
    s += "</tr>\n";
  }
  return heading ? s + "</table></div>\n" : "";
}

std::string picture_section(const ReportData& d, int64_t image, double most) {
  const Prediction& p = pictured(d, image);
  const std::string& name = d.class_names.at(static_cast<size_t>(p.label));
  std::string s =
      "<div class=\"row\">\n" + html_figure(html_image(to_bitmap(p.picture), kLarge, name), name);
  for (const models::PatchMap& m : d.patches.maps)
    for (int64_t i = 0; m.labels.empty() && i < m.values.size(1); ++i)
      s += overlay_image(d, image, m, i, most, false);
  return s + table(d, image, most) + "</div>\n";
}

}  // namespace

Bitmap to_bitmap(const Picture& p) {
  Bitmap b{p.height, p.width, std::vector<uint8_t>(p.pixels.size())};
  size_t plane = static_cast<size_t>(p.width * p.height);
  for (size_t i = 0; i < plane; ++i)
    for (size_t c = 0; c < 3; ++c) b.rgb[3 * i + c] = p.pixels[c * plane + i];
  return b;
}

double PatchScale::red(double value) const {
  return most > even ? std::sqrt(std::clamp((value - even) / (most - even), 0.0, 1.0)) : 0;
}

Bitmap overlay(const Picture& p, const std::vector<float>& values, int64_t rows, int64_t columns,
               double most) {
  check(rows > 0 && columns > 0 && std::ssize(values) == rows * columns,
        "overlay: {} values for {} x {} patches", values.size(), rows, columns);
  if (most == 0) most = static_cast<double>(*std::max_element(values.begin(), values.end()));
  const PatchScale scale{1 / static_cast<double>(values.size()), most};
  Bitmap b = to_bitmap(p);
  for (int64_t i = 0; i < p.width * p.height; ++i) {
    const int64_t row = i / p.width * rows / p.height, column = i % p.width * columns / p.width;
    const float value = values[static_cast<size_t>(row * columns + column)];
    uint8_t* rgb = &b.rgb[static_cast<size_t>(3 * i)];
    const Rgb c = reddened(0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2],  // ITU-R BT.601
                           scale.red(static_cast<double>(value)));
    rgb[0] = c.red, rgb[1] = c.green, rgb[2] = c.blue;
  }
  return b;
}

std::string picture_maps(const ReportData& d) {
  if (d.patches.maps.empty()) return "";
  const Tensor& any = d.patches.maps[0].values;
  const int64_t patches = any.size(2) * any.size(3);
  double most = kLeastReddest / static_cast<double>(patches);
  for (const models::PatchMap& m : d.patches.maps) most = std::max(most, max(m.values).item());
  const PatchScale scale{1 / static_cast<double>(patches), most};
  BarTicks ticks;
  for (const double share : {0.0, 0.1, 0.3, 0.6, 1.0}) {
    const double value = scale.even + share * (most - scale.even);
    ticks.emplace_back(scale.red(value), fmt::format("{:.3g} %", 100 * value));
  }
  constexpr double kMiddleGrey = 128;
  std::string s = fmt::format(
      "<p>{} {} in grey. Red is what a patch has above {:.3g} %, an even share of {} patches. All "
      "pictures have this scale; a click on one makes it large.</p>\n{}",
      escape_html(d.patches.caption), d.shown, 100 * scale.even, patches,
      color_bar(
          ticks, [](double t) { return reddened(kMiddleGrey, t); }, false));
  for (int64_t i = 0; i < any.size(0); ++i) s += picture_section(d, i, most);
  return s;
}

}  // namespace tern::apps::train_cifar
