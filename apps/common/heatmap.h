// Matrices as pictures, with the names of their rows and columns, and the scales of their colours.
// They are drawn as for white paper; the style sheet turns them where the page is dark.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/common/color.h"
#include "tern/apps/common/html.h"
#include "tern/models/heatmaps.h"

namespace tern::apps {

/// How a matrix is drawn.
struct MatrixStyle {
  std::string title = {};                 ///< above it
  std::string description = {};           ///< for those who cannot see it
  std::vector<std::string> columns = {};  ///< names across; none: numbers from 0 at some
  std::vector<std::string> rows = {};     ///< names down; likewise
  int cell = 18, row_height = 0;          ///< pixels a column and a row; 0: as a column
  /// The text that hovering over a cell shows; none: the cells are one image.
  std::function<std::string(int64_t row, int64_t column)> hover = {};
  int thumbnail = 0;  ///< pixels of the cells' longer side, for html_zoom: names show there alone
};

/// An <svg> element and its size in pixels.
struct Drawing {
  std::string svg;
  int width = 0, height = 0;
};
/// A pixel of `cells` is an element of the matrix.
Drawing draw_matrix(const Bitmap& cells, const MatrixStyle& style);

/// The matrix (row-major) with a colour an element.
Bitmap color_cells(const std::vector<float>& values, int64_t rows, int64_t columns,
                   const std::function<Rgb(float)>& color);

/// A matrix coloured by value / limit (diverging_color), `cell` pixels an element.
std::string html_heatmap(const std::vector<float>& values, int64_t rows, int64_t columns,
                         double limit, int cell, const std::string& description);

/// The maps of each layer before and after training, in one scale a layer.
std::string html_layer_maps(const models::Heatmaps& before, const models::Heatmaps& after);

/// Where a colour bar says what: a place in [0, 1], and the text.
using BarTicks = std::vector<std::pair<double, std::string>>;
/// A bar of the colours that `color` gives for t from 0 to 1; `turned`: in dark mode, too.
std::string color_bar(const BarTicks& ticks, const std::function<Rgb(double t)>& color,
                      bool turned = true);
/// That of html_heatmap.
std::string heatmap_bar(double limit);

}  // namespace tern::apps
