#include "tern/apps/train_cifar/report_pictures.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "tern/core/base/error.h"

namespace tern::apps::train_cifar {
namespace {

constexpr int kLarge = 5, kSmall = 3;  // screen pixels to a pixel

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
  return text + fmt::format(": {:.2g} % to {:.2g} % a patch", 100 * *least, 100 * *most);
}

std::string overlay_image(const PictureMaps& p, const PatchShares& s, int64_t map, int scale) {
  return html_image(overlay(p.picture, map_of(s, map), s.rows, s.columns), scale,
                    description(s, map));
}

// A line a layer, its maps across.
std::string table(const PictureMaps& p) {
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
      s += fmt::format("<td title=\"{}\">{}</td>\n", escape_html(description(shares, i)),
                       overlay_image(p, shares, i, kSmall));
    s += "</tr>\n";
  }
  return heading ? s + "</table></div>\n" : "";
}

std::string picture_section(const PictureMaps& p) {
  std::string s = "<div class=\"row\">\n" +
                  html_figure(html_image(to_bitmap(p.picture), kLarge, p.caption), p.caption);
  for (const PatchShares& shares : p.shares)
    for (int64_t i = 0; shares.labels.empty() && i < shares.maps; ++i)
      s += html_figure(overlay_image(p, shares, i, kLarge), description(shares, i));
  return s + table(p) + "</div>\n";
}

}  // namespace

Bitmap to_bitmap(const Picture& p) {
  Bitmap b{p.width, p.height, std::vector<uint8_t>(p.pixels.size())};
  size_t plane = static_cast<size_t>(p.width * p.height);
  for (size_t i = 0; i < plane; ++i)
    for (size_t c = 0; c < 3; ++c) b.rgb[3 * i + c] = p.pixels[c * plane + i];
  return b;
}

Bitmap overlay(const Picture& p, const std::vector<float>& values, int64_t rows, int64_t columns) {
  check(rows > 0 && columns > 0 && std::ssize(values) == rows * columns,
        "overlay: {} values for {} x {} patches", values.size(), rows, columns);
  constexpr double kMost = 0.75, kRed[] = {214, 16, 30};
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  const double range = static_cast<double>(*most) - static_cast<double>(*least);
  Bitmap b = to_bitmap(p);
  for (int64_t i = 0; i < p.width * p.height; ++i) {
    const int64_t row = i / p.width * rows / p.height, column = i % p.width * columns / p.width;
    const double value = static_cast<double>(values[static_cast<size_t>(row * columns + column)]);
    const double share = range > 0 ? kMost * (value - static_cast<double>(*least)) / range : 0;
    uint8_t* rgb = &b.rgb[static_cast<size_t>(3 * i)];
    const double grey = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];  // ITU-R BT.601
    for (int c = 0; c < 3; ++c)
      rgb[c] = static_cast<uint8_t>(std::lround((1 - share) * grey + share * kRed[c]));
  }
  return b;
}

std::string picture_maps(const ReportData& d) {
  if (d.pictures.empty()) return "";
  std::string s = fmt::format(
      "<h2>{}</h2>\n<p>{} {} in grey, the patches that count most in red: each picture has a scale "
      "of its own.</p>\n",
      escape_html(d.pictures_title), escape_html(d.pictures_caption), d.shown);
  for (const PictureMaps& p : d.pictures) s += picture_section(p);
  return s;
}

}  // namespace tern::apps::train_cifar
