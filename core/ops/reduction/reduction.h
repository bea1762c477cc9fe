// Shared by the ops that reduce axes. Inside of core only.
#pragma once

#include "tern/core/kernels/reduction/sort.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern::detail {

/// The axes of a reduction of x, and the resulting shapes.
struct Reduced {
  Reduced(const char* op, const Tensor& x, const Dims& axes, bool keepdim);
  Dims axes;      ///< ascending; empty only for zero-dimensional tensors
  Shape kept;     ///< with size 1 for reduced axes: broadcasts to x
  Shape out;      ///< shape of the result
  int64_t count;  ///< number of elements reduced to one

  /// Reshapes a tensor of shape `out` to `kept`.
  Tensor broadcastable(const Tensor& t) const { return reshape(t, kept); }
};

/// The same for an op, with its check of x, and with the axes told to observers.
Reduced reduction_of(Op& op, const Tensor& x, const Dims& axes, bool keepdim);

/// An axis in [0, max(ndim, 1)): a zero-dimensional tensor counts as having one axis.
int wrap_axis(const char* op, int64_t axis, const Tensor& x);

/// Elements [part.first, part.last) of the sorted lines along an axis of x, which has axes.
ValuesIndices sorted_part(const char* op, const Tensor& x, kernels::SortedPart part, int64_t axis,
                          bool descending);

}  // namespace tern::detail
