// Matrices as pictures with ticks, and the scales of their colours.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/common/html.h"

namespace tern::apps {

/// Colour on a diverging scale: -1 blue, 0 white, 1 red. NaN is grey.
void diverging_color(double value, uint8_t* rgb);

/// A matrix (row-major) as a picture, coloured by value / limit, `scale` screen pixels to a value;
/// ticks count rows and columns from 0. Narrower screens shrink it.
std::string html_heatmap(const std::vector<float>& values, int64_t rows, int64_t columns,
                         double limit, int scale, const std::string& description);

/// The same of pixels that have their colours already; `row_scale` is their height, 0: `scale`.
std::string html_map(const Bitmap& bitmap, int scale, const std::string& description,
                     int row_scale = 0);

/// Where a colour bar says what: a place in [0, 1], and the text.
using BarTicks = std::vector<std::pair<double, std::string>>;
/// A bar of the colours that `color(t, rgb)` gives for t from 0 to 1.
std::string color_bar(const BarTicks& ticks, const std::function<void(double, uint8_t*)>& color);
/// That of html_heatmap.
std::string heatmap_bar(double limit);

}  // namespace tern::apps
