// Colours of the report pages, and the contrast between two colours.
#pragma once

#include <array>
#include <cstdint>
#include <string>

namespace tern::apps {

struct Rgb {
  uint8_t red = 0, green = 0, blue = 0;
};

/// "#1a7f37".
std::string hex(const Rgb& color);

/// Linear interpolation from a (t = 0) to b (t = 1).
Rgb mix(const Rgb& a, const Rgb& b, double t);

/// How much two colours differ in lightness, from 1 to 21: the contrast ratio of WCAG 2.1
/// (https://www.w3.org/TR/WCAG21/#dfn-contrast-ratio). Text needs 4.5, lines of charts 3.
double contrast(const Rgb& a, const Rgb& b);

/// From white (0) to red (1) and blue (-1), for numbers with a sign. NaN is grey.
Rgb diverging_color(double value);

/// From white (0) to dark blue (1), for weights. NaN is grey.
Rgb weight_color(double shade);

/// The colours of the reports' pages, on light and on dark screens.
struct Theme {
  Rgb paper, ink, soft;  ///< soft: small print
  Rgb line;              ///< rules of tables and grids; never text
  Rgb good, bad;         ///< right and wrong answers
  Rgb link;
  std::array<Rgb, 6> series;  ///< lines of charts
};
extern const Theme kLightTheme, kDarkTheme;

}  // namespace tern::apps
