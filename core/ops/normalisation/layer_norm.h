// Shared by the ops that normalise: the last axes or groups (layer_norm.cpp), a sum (residual.cpp),
// channels (batch_norm.cpp, instance_norm.cpp). Inside of core only.
#pragma once

#include "tern/core/kernels/normalisation/normalise.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern::detail {

struct Norm {
  const char* name;
  bool centred;
  Shape shape;  // sizes of the normalised last axes
  double eps;

  int64_t size() const { return numel(shape); }
};

/// Error if x (N, C, ...) has fewer than 2 axes, or a weight, bias or statistic is not (C) of its
/// type; undefined ones are left out.
void check_channels(const char* op, const Tensor& x, std::initializer_list<const Tensor*> given);
/// t (C) in the shape in which it broadcasts to x (N, C, ...).
Tensor by_channel(const Tensor& t, const Tensor& x);

/// Error if the norm does not fit its operands.
void check_norm(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias);

/// Contiguous weight and bias; ones and zeros if left out.
struct NormWeights {
  Tensor weight, bias;
};
NormWeights weights_of(const Norm& norm, DType type, const Tensor& weight, const Tensor& bias);

/// Memory for the kernel's results.
struct NormResult {
  NormResult(const Norm& norm, const Shape& shape, DType type);
  /// The kernel's arguments. Rows of x are contiguous and `x_stride` apart.
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

/// Computes the gradients of a norm: those of x, weight and bias, in this order.
class SavedNorm {
 public:
  SavedNorm(const Norm& norm, const Tensor& x, const NormWeights& weights, const NormResult& r);
  /// Computes them by public ops, so that they can be differentiated again.
  Gradients recorded(const Tensor& dy) const;
  /// Computes them in one pass. `shares`: the gradients of weight and bias are wanted. If `sum` is
  /// given, the gradient of x is added to it. Otherwise it is returned, and `dropped` receives it
  /// with `mask` applied.
  Gradients fused(Consumed dy, bool shares, const Tensor& sum, const Fresh* dropped = nullptr,
                  const kernels::DropMask& mask = {}) const;

 private:
  Norm norm_;
  Saved x_, weight_;
  Tensor mean_, rstd_;
};

/// In a RecomputeScope (tape/autograd.h): keeps x instead of its norm y.
void recompute_norm(const Norm& norm, const Fresh& y, const Tensor& x, const NormWeights& w);

/// The accumulated gradient of input 0, if it exists and may be added to in place. It exists in
/// pre-norm blocks, where the residual sum also reads x.
Tensor gathered(const Wants& wants);

/// The norm by public ops.
Tensor norm_definition(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias);

}  // namespace tern::detail
