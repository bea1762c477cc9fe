#include "tern/apps/common/color.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace tern::apps {
namespace {

constexpr Rgb kWhite = {255, 255, 255}, kGrey = {160, 160, 160};

double linear(uint8_t channel) {
  const double v = channel / 255.0;
  return v <= 0.04045 ? v / 12.92 : std::pow((v + 0.055) / 1.055, 2.4);
}

double luminance(const Rgb& c) {
  return .2126 * linear(c.red) + .7152 * linear(c.green) + .0722 * linear(c.blue);
}

}  // namespace

const Theme kLightTheme = {.paper = {255, 255, 255},
                           .ink = {34, 34, 34},
                           .soft = {85, 85, 85},
                           .line = {221, 221, 221},
                           .good = {26, 127, 55},
                           .bad = {193, 18, 31},
                           .link = {9, 88, 174},
                           .series = {{{11, 107, 203},
                                       {200, 50, 75},
                                       {46, 125, 50},
                                       {138, 79, 190},
                                       {166, 88, 0},
                                       {0, 121, 140}}}};

const Theme kDarkTheme = {.paper = {20, 23, 27},
                          .ink = {230, 230, 230},
                          .soft = {172, 180, 188},
                          .line = {56, 63, 70},
                          .good = {76, 194, 107},
                          .bad = {255, 123, 114},
                          .link = {122, 184, 255},
                          .series = {{{90, 169, 245},
                                      {255, 138, 151},
                                      {102, 194, 107},
                                      {195, 155, 240},
                                      {240, 160, 60},
                                      {63, 193, 208}}}};

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
  constexpr Rgb kBlue = {33, 102, 172}, kRed = {178, 24, 43};
  return mix(kWhite, value < 0 ? kBlue : kRed, std::abs(value));
}

Rgb weight_color(double shade) {
  if (std::isnan(shade)) return kGrey;
  // The sequential scheme Blues of ColorBrewer (https://colorbrewer2.org), from white.
  constexpr std::array<Rgb, 9> kBlues = {{{255, 255, 255},
                                          {222, 235, 247},
                                          {198, 219, 239},
                                          {158, 202, 225},
                                          {107, 174, 214},
                                          {66, 146, 198},
                                          {33, 113, 181},
                                          {8, 81, 156},
                                          {8, 48, 107}}};
  const double at = std::clamp(shade, 0.0, 1.0) * static_cast<double>(kBlues.size() - 1);
  const size_t k = std::min(static_cast<size_t>(at), kBlues.size() - 2);
  return mix(kBlues[k], kBlues[k + 1], at - static_cast<double>(k));
}

}  // namespace tern::apps
