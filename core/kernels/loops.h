// The strided iterator that every kernel uses. A plan merges axes that are contiguous in all
// operands, so that most layouts become one or two loops. for_each_run then gives the innermost
// runs, for_each_block those of the two innermost axes. Several threads may walk disjoint ranges of
// one plan.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>

#include "tern/core/base/layout.h"

namespace tern::kernels {

constexpr int kMaxOperands = 5;

struct Loops {
  int operands = 0;
  int64_t numel = 0;
  Shape sizes;                                ///< merged axes, outermost first; at least one
  std::array<Strides, kMaxOperands> strides;  ///< per operand, in elements

  int64_t inner_size() const { return sizes.back(); }
  int64_t inner_stride(int operand) const { return strides[operand].back(); }
  /// The stride between innermost runs; 0 if there is only one axis.
  int64_t row_stride(int operand) const {
    const Strides& s = strides[operand];
    return s.size() > 1 ? s[s.size() - 2] : 0;
  }
};

/// The loops over `shape` for operands of that shape (expanded to it if necessary). Ignores the
/// layouts' offsets, which the data pointers include.
Loops plan_loops(const Shape& shape, std::initializer_list<const Layout*> operands);

/// The position of a run: each operand's element offset from its data pointer.
using Offsets = std::array<int64_t, kMaxOperands>;

/// The offsets of linear index `at` (row-major over the merged axes). Sets `index` to its index
/// along each axis.
Offsets seek(const Loops& loops, int64_t at, Dims& index);

/// Calls body(offsets, rows, count) for blocks that make up elements [first, last) in row-major
/// order. A block is `rows` runs of `count` elements, along the two innermost axes: element i of
/// run r of operand k is at offsets[k] + r * loops.row_stride(k) + i * loops.inner_stride(k). A
/// call per block, not per run, keeps short runs cheap.
template <class Body>
[[gnu::always_inline]] inline void for_each_block(const Loops& loops, int64_t first, int64_t last,
                                                  Body&& body) {
  if (first >= last) return;
  Dims index;
  Offsets at = seek(loops, first, index);
  const int inner = loops.sizes.size() - 1;
  const int64_t size = loops.sizes[inner];
  while (true) {
    const int64_t skipped = index[inner], left = last - first;
    const int64_t count = std::min(size - skipped, left);
    int64_t rows = 1;
    if (skipped == 0 && inner > 0 && left > size)
      rows = std::min(left / size, loops.sizes[inner - 1] - index[inner - 1]);
    body(static_cast<const Offsets&>(at), rows, count);
    first += rows * count;
    if (first >= last) return;
    for (int k = 0; k < loops.operands; ++k) at[k] -= skipped * loops.strides[k][inner];
    index[inner] = 0;
    for (int axis = inner - 1; axis >= 0; --axis, rows = 1) {
      for (int k = 0; k < loops.operands; ++k) at[k] += rows * loops.strides[k][axis];
      if ((index[axis] += rows) < loops.sizes[axis]) break;
      for (int k = 0; k < loops.operands; ++k) at[k] -= loops.sizes[axis] * loops.strides[k][axis];
      index[axis] = 0;
    }
  }
}

/// Calls body(offsets, count) for the parts of innermost runs that make up elements [first, last)
/// in row-major order. Element i of operand k is at offsets[k] + i * loops.inner_stride(k).
template <class Body>
[[gnu::always_inline]] inline void for_each_run(const Loops& loops, int64_t first, int64_t last,
                                                Body&& body) {
  for_each_block(loops, first, last, [&](const Offsets& block, int64_t rows, int64_t count) {
    Offsets at = block;
    for (int64_t r = 0; r < rows; ++r) {
      body(static_cast<const Offsets&>(at), count);
      for (int k = 0; k < loops.operands; ++k) at[k] += loops.row_stride(k);
    }
  });
}

}  // namespace tern::kernels
