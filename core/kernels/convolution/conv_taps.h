// Positions of a convolution's taps in the input, for the kernels in conv*.cpp.
// Inside of core only.
#pragma once

#include <algorithm>

#include "tern/core/base/ceil_div.h"
#include "tern/core/kernels/convolution/conv.h"

namespace tern::kernels {

/// One column of the kernel: output j of a row reads input column first + j * stride for begin <=
/// j < end. For other j it falls on padding.
struct TapColumns {
  int64_t first, begin, end;
};

[[gnu::always_inline]] inline TapColumns tap_columns(const Conv& c, int64_t kw) {
  const int64_t s = c.stride[2], first = kw * c.dilation[2] - c.padding[2];
  const int64_t begin = first >= 0 ? 0 : std::min(c.out_width(), ceil_div(-first, s));
  const int64_t room = c.width() - first;  // columns from `first` to the end of the row
  return {first, begin, room <= 0 ? 0 : std::min(c.out_width(), ceil_div(room, s))};
}

/// The row of the input (over its whole depth) that row (kd, kh) of the kernel reads for a row of
/// outputs (over their whole depth); -1: a row of padding.
[[gnu::always_inline]] inline int64_t tap_row(const Conv& c, int64_t out_row, int64_t kd,
                                              int64_t kh) {
  int64_t d = 0, h = out_row;
  if (c.out_size[0] != 1) {
    d = out_row / c.out_size[1];
    h = out_row % c.out_size[1];
  }
  d = d * c.stride[0] - c.padding[0] + kd * c.dilation[0];
  h = h * c.stride[1] - c.padding[1] + kh * c.dilation[1];
  const bool inside = d >= 0 && d < c.size[0] && h >= 0 && h < c.size[1];
  return inside ? d * c.size[1] + h : -1;
}

/// One tap of the kernel over one row of outputs.
struct Tap : TapColumns {
  int64_t row;  ///< as tap_row; -1: the tap is all padding
};

[[gnu::always_inline]] inline Tap tap_at(const Conv& c, int64_t out_row, int64_t kd, int64_t kh,
                                         int64_t kw) {
  const TapColumns columns = tap_columns(c, kw);
  return {columns, columns.begin < columns.end ? tap_row(c, out_row, kd, kh) : -1};
}

}  // namespace tern::kernels
