#include "tern/apps/train_cifar/report_pictures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tern/apps/common/heatmap.h"
#include "tern/core/base/error.h"

namespace tern::apps::train_cifar {
namespace {

constexpr int kLarge = 5, kSmall = 3;  // screen pixels to a pixel
constexpr double kLeastReddest = 4;    // even shares: what is about even stays about grey

// A grey, the redder the nearer `share` is to 1.
Rgb reddened(double grey, double share) {
  constexpr double kMost = 0.75;
  constexpr Rgb kRed = {214, 16, 30};
  const auto g = static_cast<uint8_t>(std::lround(grey));
  return mix({g, g, g}, kRed, kMost * share);
}

std::vector<float> map_of(const PatchShares& s, int64_t map) {
  const auto size = static_cast<std::ptrdiff_t>(s.rows * s.columns);
  return {s.values.begin() + map * size, s.values.begin() + (map + 1) * size};
}

// "Layer 2, head 1: 0.3 % to 4 % a patch"
std::string description(const PatchShares& s, int64_t map) {
  const std::vector<float> values = map_of(s, map);
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  std::string text = s.name;
  if (!s.labels.empty()) text += ", " + s.labels.at(static_cast<size_t>(map));
  return text + fmt::format(": {:.3g} % to {:.3g} % a patch", 100 * *least, 100 * *most);
}

// One map as a picture that a click makes large. `number`: of the picture on the page.
std::string overlay_image(const PictureMaps& p, size_t number, const PatchShares& s, int64_t map,
                          int scale, double most) {
  const Bitmap b = overlay(p.picture, map_of(s, map), s.rows, s.columns, most);
  const std::string text = description(s, map);
  return html_zoom(html_image(b, scale, text),
                   fmt::format("picture{}-{}-{}", number, &s - p.shares.data(), map), text);
}

// A line a layer, its maps across.
std::string table(const PictureMaps& p, size_t number, double most) {
  std::string s = "<div class=\"heads\"><table>\n";
  const std::vector<std::string>* heading = nullptr;
  for (const PatchShares& shares : p.shares) {
    if (shares.labels.empty()) continue;
    if (!heading || *heading != shares.labels) {
      heading = &shares.labels;
      s += "<tr><th></th>";
      for (const std::string& label : *heading) s += fmt::format("<th>{}</th>", escape_html(label));
      s += "</tr>\n";
    }
    s += fmt::format("<tr><th>{}</th>\n", escape_html(shares.name));
    for (int64_t i = 0; i < shares.maps; ++i)
      s += fmt::format("<td>{}</td>\n", overlay_image(p, number, shares, i, kSmall, most));
    s += "</tr>\n";
  }
  return heading ? s + "</table></div>\n" : "";
}

std::string picture_section(const PictureMaps& p, size_t number, double most) {
  std::string s = "<div class=\"row\">\n" +
                  html_figure(html_image(to_bitmap(p.picture), kLarge, p.caption), p.caption);
  for (const PatchShares& shares : p.shares)
    for (int64_t i = 0; shares.labels.empty() && i < shares.maps; ++i)
      s += html_figure(overlay_image(p, number, shares, i, kLarge, most), description(shares, i));
  return s + table(p, number, most) + "</div>\n";
}

}  // namespace

Bitmap to_bitmap(const Picture& p) {
  Bitmap b{p.width, p.height, std::vector<uint8_t>(p.pixels.size())};
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
  if (d.pictures.empty()) return "";
  size_t patches = 1;
  double most = 0;
  for (const PictureMaps& p : d.pictures)
    for (const PatchShares& s : p.shares) {
      patches = static_cast<size_t>(s.rows * s.columns);
      for (const float v : s.values) most = std::max(most, static_cast<double>(v));
    }
  most = std::max(most, kLeastReddest / static_cast<double>(patches));
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
      escape_html(d.pictures_caption), d.shown, 100 * scale.even, patches,
      color_bar(
          ticks, [](double t) { return reddened(kMiddleGrey, t); }, false));
  for (size_t i = 0; i < d.pictures.size(); ++i) s += picture_section(d.pictures[i], i + 1, most);
  return s;
}

}  // namespace tern::apps::train_cifar
