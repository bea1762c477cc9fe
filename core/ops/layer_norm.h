// What the ops that normalise the last axes share: layer_norm.cpp, and residual.cpp, which adds
// before. Inside of core only.
#pragma once

#include "tern/core/kernels/normalise.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern::detail {

struct Norm {
  const char* name;
  bool centred;
  Shape shape;  // of the last axes, which are normalised
  double eps;

  int64_t size() const { return numel(shape); }
};

/// An Error if the norm does not fit its operands.
void check_norm(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias);

/// Without gaps; ones and zeros where they are left out.
struct NormWeights {
  Tensor weight, bias;
};
NormWeights weights_of(const Norm& norm, DType type, const Tensor& weight, const Tensor& bias);

/// Room for what the kernel gives.
struct NormResult {
  NormResult(const Norm& norm, const Shape& shape, DType type);
  /// What the kernel is told; the rows of x have no gaps and lie `x_stride` apart.
  template <class T>
  kernels::LayerNormForward<T> call(const Norm& norm, const T* x, int64_t x_stride,
                                    const NormWeights& w) const {
    return {.x = x,
            .weight = w.weight.data<T>(),
            .bias = w.bias.data<T>(),
            .y = y.data<T>(),
            .mean = norm.centred ? mean.data<T>() : nullptr,
            .rstd = rstd.data<T>(),
            .rows = rows,
            .n = norm.size(),
            .x_stride = x_stride,
            .eps = norm.eps};
  }
  int64_t rows;
  Fresh y, mean, rstd;
};

/// What the gradients of a norm are computed from: those of x, weight and bias, in this order.
class SavedNorm {
 public:
  SavedNorm(const Norm& norm, const Tensor& x, const NormWeights& weights, const NormResult& r);
  /// By public ops, so that they can be differentiated again.
  Gradients recorded(const Tensor& dy) const;
  /// In one pass. `shares`: those of weight and bias are wanted. That of x is added to `sum` where
  /// one is given, else it is a result, of which `dropped` receives what `mask` leaves.
  Gradients fused(Consumed dy, bool shares, const Tensor& sum, const Fresh* dropped = nullptr,
                  const kernels::DropMask& mask = {}) const;

 private:
  Norm norm_;
  Saved x_, weight_;
  Tensor mean_, rstd_;
};

/// Where blocks recompute (recompute.h): y, the norm of x, need not be kept, x is.
void recompute_norm(const Norm& norm, const Fresh& y, const Tensor& x, const NormWeights& w);

/// Where the gradient of input 0 may be added in place, as it is in pre-norm blocks, which pass x
/// by.
Tensor gathered(const Wants& wants);

/// The norm by public ops.
Tensor norm_definition(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace tern::detail
