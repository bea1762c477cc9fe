// The ops that backward uses to add gradients. The tape declares them, ops/ defines them, ops.h
// documents them. Inside of core only.
#pragma once

#include "tern/core/tensor/tensor.h"

namespace tern {

Tensor ones(const Shape& shape, DType dtype);
Tensor add(const Tensor& a, const Tensor& b);
Tensor sum_to(const Tensor& x, const Shape& shape);
void add_(const Tensor& x, const Tensor& y, double alpha);

}  // namespace tern
