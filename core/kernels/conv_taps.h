// Positions of a convolution's taps in the input, for the kernels in conv*.cpp.
// Inside of core only.
#pragma once

#include <algorithm>

#include "tern/core/kernels/conv.h"

namespace tern::kernels {

/// One tap of the kernel over one row of outputs: output j reads input column first + j * stride
/// for begin <= j < end; for other j the tap falls on padding.
struct Tap {
  int64_t row;  ///< row of the input over its whole depth; -1: the tap is all padding
  int64_t first, begin, end;
};

/// `out_row` counts over the whole depth.
[[gnu::always_inline]] inline Tap tap_at(const Conv& c, int64_t out_row, int64_t kd, int64_t kh,
                                         int64_t kw) {
  int64_t d = 0, h = out_row;
  if (c.out_size[0] != 1) {
    d = out_row / c.out_size[1];
    h = out_row % c.out_size[1];
  }
  d = d * c.stride[0] - c.padding[0] + kd * c.dilation[0];
  h = h * c.stride[1] - c.padding[1] + kh * c.dilation[1];
  Tap t;
  t.first = kw * c.dilation[2] - c.padding[2];
  const int64_t s = c.stride[2];
  t.begin = t.first >= 0 ? 0 : std::min(c.out_width(), (-t.first + s - 1) / s);
  int64_t room = c.width() - t.first;  // columns from `first` to the end of the row
  t.end = room <= 0 ? 0 : std::min(c.out_width(), (room + s - 1) / s);
  const bool inside = d >= 0 && d < c.size[0] && h >= 0 && h < c.size[1] && t.begin < t.end;
  t.row = inside ? d * c.size[1] + h : -1;
  return t;
}

}  // namespace tern::kernels
