// Padding with elements of the tensor itself. To pad with a number: pad(x, pads, value) of ops.h.
#pragma once

#include <vector>

#include "tern/core/ops/convolution/spatial.h"
#include "tern/core/ops/scalar.h"
#include "tern/core/tensor/tensor.h"

namespace tern {

/// Pads in PyTorch's order: {left, right} of the last axis, then of the one before, ... Negative
/// pads crop. Any of the last axes may be padded. reflect pads at most n - 1 elements per side of
/// an axis of n, circular at most n. replicate and reflect need a nonempty axis.
Tensor pad(const Tensor& x, const Dims& pads, PaddingMode mode);

/// Joins sequences of different lengths (T_i, ...) to one batch (B, T, ...), where T is the largest
/// T_i. Pads shorter ones with the value. The batch is the first axis, as with PyTorch's
/// batch_first=True. nn::Mask::lengths hides the padding from attention.
Tensor pad_sequence(const std::vector<Tensor>& sequences, Scalar value = 0);

}  // namespace tern
