// The strided iterator that every kernel uses. A plan merges axes that are contiguous in all
// operands, so that most layouts become one or two loops. for_each_run then gives the innermost
// runs. Several threads may walk disjoint ranges of one plan.
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
};

/// The loops over `shape` for operands of that shape (expanded to it if necessary). Ignores the
/// layouts' offsets, which the data pointers include.
Loops plan_loops(const Shape& shape, std::initializer_list<const Layout*> operands);

/// The position of a run: each operand's element offset from its data pointer.
using Offsets = std::array<int64_t, kMaxOperands>;

/// The offsets of linear index `at` (row-major over the merged axes). Sets `index` to its index
/// along each axis.
Offsets seek(const Loops& loops, int64_t at, Dims& index);

/// Calls body(offsets, count) for the parts of innermost runs that make up elements [first, last)
/// in row-major order. Element i of operand k is at offsets[k] + i * loops.inner_stride(k).
template <class Body>
void for_each_run(const Loops& loops, int64_t first, int64_t last, Body&& body) {
  if (first >= last) return;
  Dims index;
  Offsets at = seek(loops, first, index);
  const int inner = loops.sizes.size() - 1;
  while (true) {
    int64_t count = std::min(loops.sizes[inner] - index[inner], last - first);
    body(static_cast<const Offsets&>(at), count);
    first += count;
    if (first >= last) return;
    for (int k = 0; k < loops.operands; ++k) at[k] -= index[inner] * loops.strides[k][inner];
    index[inner] = 0;
    for (int axis = inner - 1; axis >= 0; --axis) {
      for (int k = 0; k < loops.operands; ++k) at[k] += loops.strides[k][axis];
      if (++index[axis] < loops.sizes[axis]) break;
      for (int k = 0; k < loops.operands; ++k) at[k] -= loops.sizes[axis] * loops.strides[k][axis];
      index[axis] = 0;
    }
  }
}

}  // namespace tern::kernels
