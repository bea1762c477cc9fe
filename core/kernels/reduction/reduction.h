// Reductions over any axes of any layout. A plan separates kept axes from reduced axes. The kernels
// then walk rows (the reduced axis is contiguous) or columns (a kept axis is, as in a bias
// gradient). The partition of the work depends only on the sizes, and partial results are combined
// in a fixed order, so results do not depend on the number of threads. Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/kernels/loops.h"

namespace tern::kernels {

struct ReducePlan {
  Loops kept;         ///< strides of x over the kept axes, in the result's order
  Loops reduced;      ///< strides of x over the others, largest stride first
  int64_t first = 0;  ///< position of the first reduced element (negative strides are flipped)
};

/// `axes`: the reduced axes, ascending.
ReducePlan plan_reduction(const Layout& x, const Dims& axes);

// y has plan.kept.numel contiguous numbers. x points to the element at index 0, 0, ...

/// y = sum / divisor, which is a mean if divisor is the number of reduced elements. Sums integers
/// in int64_t and floats in double. Does not divide integers.
void sum(const ReducePlan& plan, const float* x, float* y, double divisor);
void sum(const ReducePlan& plan, const double* x, double* y, double divisor);
void sum(const ReducePlan& plan, const int64_t* x, int64_t* y, double divisor);
void sum(const ReducePlan& plan, const uint8_t* x, int64_t* y, double divisor);

/// The largest (smallest) element; NaN if there is one. For an empty reduction: the lowest
/// (highest) value of the type.
template <class T>
void max(const ReducePlan& plan, const T* x, T* y);
template <class T>
void min(const ReducePlan& plan, const T* x, T* y);

/// (sum |x|^p)^(1/p) for float and double. REQUIRES: p is finite and not 0.
template <class T>
void norm(const ReducePlan& plan, const T* x, T* y, double p);

}  // namespace tern::kernels
