// Padding with elements of the tensor itself. To pad with a number: pad(x, pads, value) of ops.h.
#pragma once

#include "tern/core/ops/spatial.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

/// Pads in PyTorch's order: {left, right} of the last axis, then of the one before, ... Negative
/// pads crop. Any of the last axes may be padded. reflect pads at most n - 1 elements per side of
/// an axis of n, circular at most n. replicate and reflect need a nonempty axis.
Tensor pad(const Tensor& x, const Dims& pads, PaddingMode mode);

}  // namespace tern
