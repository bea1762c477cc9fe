// What the ops that reduce axes share. Inside of core only.
#pragma once

#include "tern/core/ops/ops.h"

namespace tern::detail {

/// The axes of a reduction of x, and the shapes that it leaves.
struct Reduced {
  Reduced(const char* op, const Tensor& x, const Dims& axes, bool keepdim);
  Dims axes;      ///< ascending; empty only for a tensor without axes
  Shape kept;     ///< reduced axes have size 1: broadcasts to x
  Shape out;      ///< of the result
  int64_t count;  ///< elements that make one of the result

  /// A tensor of shape `out` as one of shape `kept`.
  Tensor broadcastable(const Tensor& t) const { return reshape(t, kept); }
};

/// Axis in [0, max(ndim, 1)): a tensor without axes counts as having one.
int reduced_axis(const char* op, int64_t axis, const Tensor& x);

}  // namespace tern::detail
