// The light and the dark theme of the pages, WCAG contrast, and colour scales for matrices.
#include "tern/apps/common/pages/color.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tern::apps {
namespace {

constexpr Rgb rgb(uint32_t code) {
  return {static_cast<uint8_t>(code >> 16), static_cast<uint8_t>(code >> 8 & 255),
          static_cast<uint8_t>(code & 255)};
}

constexpr Rgb kWhite = rgb(0xffffff), kGrey = rgb(0xa0a0a0);

double linear(uint8_t channel) {
  const double v = channel / 255.0;
  return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
}

double luminance(const Rgb& c) {
  return .2126 * linear(c.red) + .7152 * linear(c.green) + .0722 * linear(c.blue);
}

}  // namespace

const Theme kLightTheme = {.paper = rgb(0xffffff),
                           .ink = rgb(0x222222),
                           .soft = rgb(0x555555),
                           .line = rgb(0xdddddd),
                           .good = rgb(0x1a7f37),
                           .bad = rgb(0xc1121f),
                           .link = rgb(0x0958ae),
                           .series = {rgb(0x0b6bcb), rgb(0xc8324b), rgb(0x2e7d32), rgb(0x8a4fbe),
                                      rgb(0xa65800), rgb(0x00798c)}};

const Theme kDarkTheme = {.paper = rgb(0x14171b),
                          .ink = rgb(0xe6e6e6),
                          .soft = rgb(0xacb4bc),
                          .line = rgb(0x383f46),
                          .good = rgb(0x4cc26b),
                          .bad = rgb(0xff7b72),
                          .link = rgb(0x7ab8ff),
                          .series = {rgb(0x5aa9f5), rgb(0xff8a97), rgb(0x66c26b), rgb(0xc39bf0),
                                     rgb(0xf0a03c), rgb(0x3fc1d0)}};

std::string hex(const Rgb& c) { return fmt::format("#{:02x}{:02x}{:02x}", c.red, c.green, c.blue); }

Rgb mix(const Rgb& a, const Rgb& b, double t) {
  auto between = [t](uint8_t x, uint8_t y) {
    return static_cast<uint8_t>(std::lround(x + std::clamp(t, 0.0, 1.0) * (y - x)));
  };
  return {between(a.red, b.red), between(a.green, b.green), between(a.blue, b.blue)};
}

double contrast(const Rgb& a, const Rgb& b) {
  const double x = luminance(a) + .05, y = luminance(b) + .05;
  return std::max(x, y) / std::min(x, y);
}

Rgb diverging_color(double value) {
  if (std::isnan(value)) return kGrey;
  constexpr Rgb kBlue = rgb(0x2166ac), kRed = rgb(0xb2182b);
  return mix(kWhite, value < 0 ? kBlue : kRed, std::abs(value));
}

Rgb weight_color(double shade) {
  if (std::isnan(shade)) return kGrey;
  // The sequential scheme Blues of ColorBrewer (https://colorbrewer2.org), from white.
  constexpr std::array<Rgb, 9> kBlues = {rgb(0xffffff), rgb(0xdeebf7), rgb(0xc6dbef),
                                         rgb(0x9ecae1), rgb(0x6baed6), rgb(0x4292c6),
                                         rgb(0x2171b5), rgb(0x08519c), rgb(0x08306b)};
  const double at = std::clamp(shade, 0.0, 1.0) * static_cast<double>(kBlues.size() - 1);
  const size_t k = std::min(static_cast<size_t>(at), kBlues.size() - 2);
  return mix(kBlues[k], kBlues[k + 1], at - static_cast<double>(k));
}

}  // namespace tern::apps
