// Shared by losses. Inside of core only.
#pragma once

#include "tern/core/ops/ops.h"

namespace tern::detail {

inline void check_same_shape(const char* op, const Tensor& x, const Tensor& y) {
  check(x.shape() == y.shape(), "{}: shapes {} and {} differ; reshape or expand one of them", op,
        x.shape(), y.shape());
}

inline Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

}  // namespace tern::detail
