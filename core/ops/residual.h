// Residual connections: what a block adds to what passes by, with its dropout and the norm behind
// it, in one pass over memory.
//
//   y = layer_norm(residual + dropout(x))           post-norm: add_layer_norm
//   s = residual + dropout(x), y = layer_norm(s)    pre-norm, s passes by: sum_and_layer_norm
//
// Values, random numbers and gradients are those of the single ops, bit for bit. For the backward
// pass the sum is kept, as layer_norm would; of dropout the generator's key alone. Where x ends in
// a matrix, linear() itself can add the residual and drop (LinearOptions).
//
// x (..., N...), residual of the same shape (a residual that broadcasts to it is taken too), both
// f32 or f64; weight and bias as layer_norm's, which may be undefined.
#pragma once

#include "tern/core/ops/ops.h"

namespace tern {

/// residual + dropout(x): elements of x are zeroed with probability p, the others scaled by
/// 1/(1-p). p = 0 draws nothing. Error if p is outside of [0, 1].
Tensor dropout_add(const Tensor& x, const Tensor& residual, double p, Rng& rng);

struct AddNormOptions {
  double eps = 1e-5;
  double dropout = 0;  ///< of x; then a generator is needed
  Rng* rng = nullptr;
};

/// layer_norm(residual + dropout(x)) over the last axes, whose sizes are `shape`.
Tensor add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                      const Tensor& weight = {}, const Tensor& bias = {},
                      const AddNormOptions& options = {});
Tensor add_rms_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                    const Tensor& weight = {}, const AddNormOptions& options = {.eps = 1e-6});

/// The sum as well, for what comes after the norm's block. Both are differentiable.
struct SumAndNorm {
  Tensor sum, norm;
};
SumAndNorm sum_and_layer_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                              const Tensor& weight = {}, const Tensor& bias = {},
                              const AddNormOptions& options = {});
SumAndNorm sum_and_rms_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                            const Tensor& weight = {},
                            const AddNormOptions& options = {.eps = 1e-6});

}  // namespace tern
