// Padding with elements of the tensor itself; padding with a number is pad(x, pads, value) of
// ops.h.
#pragma once

#include "tern/core/ops/spatial.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

/// PyTorch's order of pads: {left, right} of the last axis, then of the one before, ...; negative
/// ones crop. reflect takes less than an axis has on each side, circular at most as much as it has;
/// replicate and reflect need an axis that is not empty. Any of the last axes may be padded.
Tensor pad(const Tensor& x, const Dims& pads, PaddingMode mode);

}  // namespace tern
