// Sorting along one axis. NaN sorts above every number. Equal elements keep their order.
// Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/base/dtype.h"
#include "tern/core/kernels/loops.h"

namespace tern::kernels {

/// The sorted axis: its length in the input, and the strides along it.
struct SortAxis {
  int64_t size, from_stride, values_stride, indices_stride;
};

/// A part of a sorted line: elements [first, last).
struct SortedPart {
  int64_t first, last;
};

/// A part of every sorted line, and the indices of its elements. Operands of the lines: input,
/// values, indices.
void sort(DType type, const Loops& lines, const SortAxis& axis, SortedPart part, bool descending,
          const void* from, void* values, int64_t* indices);

/// The index of the greatest (least) element of every line: the first of equals, or the first NaN.
/// Operands of the lines: input, result. REQUIRES: size > 0.
void arg_extreme(DType type, const Loops& lines, int64_t size, int64_t stride, bool greatest,
                 const void* from, int64_t* to);

}  // namespace tern::kernels
