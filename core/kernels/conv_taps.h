// Where the taps of a convolution meet the input, for the kernels in conv*.cpp.
// Inside of core only.
#pragma once

#include <algorithm>

#include "tern/core/kernels/conv.h"

namespace tern::kernels {

/// One tap of the kernel over one row of outputs: output j reads input column first + j * stride
/// for begin <= j < end; for other j the tap falls on padding.
struct Tap {
  int64_t row;  ///< of the input; -1: the whole tap falls on padding
  int64_t first, begin, end;
};

[[gnu::always_inline]] inline Tap tap_at(const Conv& c, int64_t out_row, int64_t kh, int64_t kw) {
  Tap t;
  t.row = out_row * c.stride[0] - c.padding[0] + kh * c.dilation[0];
  t.first = kw * c.dilation[1] - c.padding[1];
  const int64_t s = c.stride[1];
  t.begin = t.first >= 0 ? 0 : std::min(c.out_width, (-t.first + s - 1) / s);
  int64_t room = c.width - t.first;  // columns from `first` to the end of the row
  t.end = room <= 0 ? 0 : std::min(c.out_width, (room + s - 1) / s);
  if (t.row < 0 || t.row >= c.height || t.begin >= t.end) t.row = -1;
  return t;
}

}  // namespace tern::kernels
