// Matrices as pictures, with names of rows and columns, and colour scales. They are drawn for white
// paper; in dark mode the pages' style sheet (class "turned") inverts the lightness and keeps the
// hue.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "tern/apps/common/pages/color.h"
#include "tern/apps/common/pages/html.h"
#include "tern/models/heatmaps.h"

namespace tern::apps {

/// How a matrix is drawn.
struct MatrixStyle {
  std::string title = {};                 ///< above the matrix
  std::string description = {};           ///< for screen readers
  std::vector<std::string> columns = {};  ///< names; empty: numbers from 0, as many as fit
  std::vector<std::string> rows = {};     ///< likewise
  int cell = 18, row_height = 0;          ///< pixels per column and per row; 0: same as a column
  /// The text that hovering over a cell shows; empty: the cells are one image.
  std::function<std::string(int64_t row, int64_t column)> hover = {};
  /// For html_zoom: shows only the cells, this many pixels on the longer side. Names and title
  /// appear with the large picture. 0: no thumbnail.
  int thumbnail = 0;
};

/// An <svg> element and its size in pixels.
struct Drawing {
  std::string svg;
  int width = 0, height = 0;
};
/// Each pixel of `cells` is an element of the matrix.
Drawing draw_matrix(const Bitmap& cells, const MatrixStyle& style);

/// One pixel for each element of a matrix (row-major).
Bitmap color_cells(const std::vector<float>& values, int64_t rows, int64_t columns,
                   const std::function<Rgb(float)>& color);

/// A matrix coloured by value / limit (diverging_color), `cell` pixels per element.
std::string html_heatmap(const std::vector<float>& values, int64_t rows, int64_t columns,
                         double limit, int cell, const std::string& description);

/// The maps of each layer before and after training. Each layer has one scale. `before` may be
/// empty.
std::string html_layer_maps(const models::Heatmaps& before, const models::Heatmaps& after);

/// The labels of a colour bar: position in [0, 1] and text.
using BarTicks = std::vector<std::pair<double, std::string>>;
/// A colour bar: `color` gives the colours for t from 0 to 1.
std::string color_bar(const BarTicks& ticks, const std::function<Rgb(double t)>& color);
/// The bar of html_heatmap.
std::string heatmap_bar(double limit);

}  // namespace tern::apps
