// The elements that the outputs of a convolution read, as a matrix that exists only where it is
// packed for a product. It has three orders:
//   Order::planes  rows (channel, tap), columns (picture, output): for y and gradients by x
//   Order::quads   the same for bf16, rows (four channels, tap, channel): see WordOrder
//   Order::pixels  rows (picture, output), columns (tap, channel): for gradients by w
// Inside of core only.
#pragma once

#include <algorithm>

#include "tern/core/base/ceil_div.h"
#include "tern/core/kernels/convolution/conv.h"
#include "tern/core/kernels/products/matrix.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {

/// How tiles of bf16 hold four neighbouring places 0, 1, 2, 3 of k as two 32-bit words: the upper
/// and lower half of each. Words of 16 pairs of places are packed together (a group).
enum class WordOrder {
  none,          ///< not at all: in f32
  even_and_odd,  ///< (0, 2), then 8 words later (1, 3): AVX512_BF16
  neighbours,    ///< (1, 0), then (3, 2): AMX
};

class Windows {
 public:
  enum class Order { planes, quads, pixels };
  /// The windows of the in_group() channels of x from `first_channel` on. Elements outside of a
  /// picture are zeros, on all sides and for any padding and out_size of c. A padding may be
  /// negative. `rounded`: x becomes the numbers that bf16 products read.
  Windows(const Conv& c, Order order, Factor x, int64_t first_channel, bool rounded = false)
      : c_(c), order_(order), x_(x), first_channel_(first_channel), rounded_(rounded) {}

  /// The number of rows of Order::planes and Order::quads. In Order::quads, zeros fill up the last
  /// four channels.
  int64_t features() const { return (quads() ? 4 * quads_of(c_) : c_.in_group()) * c_.taps(); }
  static int64_t quads_of(const Conv& c) { return ceil_div(c.in_group(), 4); }
  bool quads() const { return order_ == Order::quads; }
  int64_t outputs() const { return c_.batch * c_.out_plane(); }

  /// The index of a column of Order::pixels among the features (channel, tap). Columns are ordered
  /// by block of kChannels channels, then by tap, then by channel.
  int64_t feature_of(int64_t column) const;
  static constexpr int64_t kChannels = 16;

  class Part;

 private:
  int64_t channels_of(int64_t block) const {
    return std::min(kChannels, c_.in_group() - block * kChannels);
  }

  const Conv c_;
  const Order order_;
  const Factor x_;
  const int64_t first_channel_;
  const bool rounded_;
};

/// Some rows and columns, ready to be packed. Holds the elements of the pictures that they read,
/// with zeros around them, so that packing needs no bounds. A part should fit the second cache. If
/// no zeros are needed, x is read in place.
class Windows::Part {
 public:
  /// Other words than none need Order::quads and a first row that begins a group.
  Part(const Windows& w, int64_t first_row, int64_t rows, int64_t first_column, int64_t columns,
       WordOrder words = WordOrder::none);

  /// Whether x is read in place. Its planes are then far apart in memory.
  bool in_place() const { return in_place_; }
  /// Chooses the columns for copy(): `width` columns (at most 32) from `column` on.
  void choose(int64_t column, int64_t width);
  /// to[i * stride + j] = element (row + i, j of the chosen columns) for i < rows; zeros for j >=
  /// width. REQUIRES: width <= stride, which is 8, 16 or 32.
  void copy(int64_t row, int64_t rows, float* to, int64_t stride) const;
  /// Copies all rows as words, in whole groups: rows of `stride` words.
  void copy_words(float* to, int64_t stride) const;

 private:
  static constexpr int64_t kMostColumns = 32;
  /// `count` neighbouring elements, from offset `from` on: the chosen columns from `to` on.
  struct Run {
    int64_t from, to, count;
  };
  /// The part of a picture that is held, in padded coordinates.
  struct Picture {
    int64_t depth, height;    ///< the first depth and height that are held
    int64_t depths, heights;  ///< the numbers of held depths and heights
    int64_t origin;           ///< the offset that the padded element (0, 0, left_) would have
  };

  /// A row of a plane: its offsets in x and in held_.
  struct Line {
    int64_t from, to;
  };

  bool reads_in_place() const;
  int64_t plan(int64_t first_output, int64_t outputs);
  void set_places();
  void set_word_places();
  void copy_places(const int64_t* place, int64_t rows, float* to, int64_t stride) const;
  int64_t list_lines(const Picture& p, Line* to) const;
  int64_t of_tap(int64_t tap) const;
  int64_t of_output_row(const Picture& p, int64_t row) const;
  void add_run(int64_t from, int64_t count);
  template <class T>
  void hold(const T* x) const;
  template <class T>
  void hold_planes(const T* x, const Line* lines, int64_t count) const;
  template <class T>
  void hold_pixels(const T* from, int64_t channels, float* to) const;

  const Conv& c_;
  const Windows& w_;
  const WordOrder words_;
  const bool planes_, in_place_;
  const int64_t first_row_, rows_;
  int64_t first_channel_ = 0, channels_ = 0;  // held channels, within the group
  int64_t planes_held_ = 0;                   // planes: of channels, of zeros, or of words
  int64_t first_picture_ = 0;
  int64_t left_ = 0, columns_ = 0;        // padded columns that are held
  int64_t phase_ = 0;                     // planes: held columns of each phase of the stride
  int64_t unit_ = 1;                      // pixels: numbers per column
  int64_t row_ = 0, depth_ = 0;           // sizes of a row of a picture and of a depth
  int64_t plane_ = 0, picture_size_ = 0;  // sizes of a channel (pixels: of a block), of a picture
  const int64_t pictures_;
  Scratch<Picture> picture_;
  Scratch<int64_t> place_;  // offset of each row
  Scratch<float> held_;
  const float* data_;  // held_, or x itself
  std::array<Run, kMostColumns> run_;
  int64_t runs_ = 0, width_ = 0;
};

/// The places in memory of a matrix's columns that lie in pictures. Column (picture, depth, row,
/// column) is `column * step + row * row_step + depth * depth_step + picture * picture_step`
/// elements after the first column.
struct ColumnPlaces {
  int64_t plane = 0, height = 1, width = 0;  ///< columns per picture, rows per depth, row length
  int64_t step = 1, row_step = 0, depth_step = 0, picture_step = 0;

  int64_t of(int64_t column) const {
    const int64_t at = column % plane, row = at / width;
    return column / plane * picture_step + row / height * depth_step + row % height * row_step +
           at % width * step;
  }
  /// The number of columns, from this one on, that are `step` apart.
  int64_t run(int64_t column) const { return width - column % plane % width; }

  /// Planes of `plane` contiguous elements.
  static ColumnPlaces planes(int64_t plane, int64_t picture_step) {
    return {plane, 1, plane, 1, 0, 0, picture_step};
  }
};

/// The operands of a product with windows, beside its matrices.
struct ConvFactors {
  const Windows* windows = nullptr;
  int64_t row = 0, column = 0;  ///< B begins at this row and column of the windows
  ColumnPlaces a = {};          ///< of A's columns, which match windows' rows; plane 0: strided
  ColumnPlaces c = {};          ///< of C's columns, which match windows'; plane 0: contiguous
};

}  // namespace tern::kernels
