// Shared by losses. Inside of core only.
#pragma once

#include "tern/core/ops/ops.h"

namespace tern::detail {

inline void check_same_shape(const char* op, const Tensor& x, const Tensor& y) {
  check(x.shape() == y.shape(), "{}: shapes {} and {} differ; reshape or expand one of them", op,
        x.shape(), y.shape());
}

/// losses * weight. (N, 1) with losses (N) would silently give a loss for each pair.
inline Tensor weighted(const char* op, const char* what, const Tensor& losses,
                       const Tensor& weight) {
  if (!weight.defined()) return losses;
  check(numel(broadcast_shapes(op, losses.shape(), weight.shape())) == losses.numel(),
        "{}: {} of shape {} would expand the losses {}; reshape it", op, what, weight.shape(),
        losses.shape());
  return losses * weight;
}

inline Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

}  // namespace tern::detail
