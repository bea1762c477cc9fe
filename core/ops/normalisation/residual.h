// Residual connections: the sum of a block's output and its input, with dropout before and a norm
// after it, in one pass over memory.
//
//   y = layer_norm(residual + dropout(x))           post-norm: add_layer_norm
//   s = residual + dropout(x), y = layer_norm(s)    pre-norm, s is used again: sum_and_layer_norm
//
// Values, random numbers and gradients equal those of the single ops, to the bit. The backward pass
// needs the sum, as in layer_norm; dropout keeps only the generator's key. If x is the output
// of a linear layer, linear() itself can do both (LinearOptions).
//
// x (..., N...) and residual have one shape, or broadcast to one, and are both f32 or both f64.
// weight and bias are those of layer_norm and may be undefined.
#pragma once

#include <optional>

#include "tern/core/ops/ops.h"

namespace tern {

/// residual + dropout(x): zeroes elements of x with probability p and scales the others by 1/(1-p).
/// p = 0 draws no random numbers. Error if p is outside [0, 1].
Tensor dropout_add(const Tensor& x, const Tensor& residual, double p, Rng& rng);

struct AddNormOptions {
  std::optional<double> eps = {};  ///< default as in the norm alone: 1e-5, with rms_norm 2^-23
  double dropout = 0;              ///< probability of zeroing x; above 0 it needs a generator
  Rng* rng = nullptr;
};

/// layer_norm(residual + dropout(x)) over the last axes, whose sizes are `shape`.
Tensor add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                      const Tensor& weight = {}, const Tensor& bias = {},
                      const AddNormOptions& options = {});
Tensor add_rms_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                    const Tensor& weight = {}, const AddNormOptions& options = {});

/// Returns the sum too, for the next residual connection. Both are differentiable.
struct SumAndNorm {
  Tensor sum, norm;
};
SumAndNorm sum_and_layer_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                              const Tensor& weight = {}, const Tensor& bias = {},
                              const AddNormOptions& options = {});
SumAndNorm sum_and_rms_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                            const Tensor& weight = {}, const AddNormOptions& options = {});

}  // namespace tern
