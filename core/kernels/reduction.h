// Reductions over any axes of any layout. A plan separates the axes that stay from those that are
// reduced; the kernels then walk rows (the reduced axis is the one that lies together in memory) or
// columns (a kept one does, as in a bias gradient). The partition of the work follows from the
// sizes alone, and partial results meet in a fixed order: no result depends on the threads.
// Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/kernels/loops.h"

namespace tern::kernels {

struct ReducePlan {
  Loops kept;         ///< strides of x over the axes that stay; row-major order is the result's
  Loops reduced;      ///< strides of x over the others, outermost first by their stride
  int64_t first = 0;  ///< position of the first reduced element (negative strides are turned)
};

/// `axes`: the reduced ones, ascending.
ReducePlan plan_reduction(const Layout& x, const Dims& axes);

// y holds plan.kept.numel numbers without gaps. x points to the element at index 0, 0, ...

/// Integers add up in int64_t, float in double. y = sum / divisor (a mean, if it is the number of
/// reduced elements); integers are not divided.
void sum(const ReducePlan& plan, const float* x, float* y, double divisor);
void sum(const ReducePlan& plan, const double* x, double* y, double divisor);
void sum(const ReducePlan& plan, const int64_t* x, int64_t* y, double divisor);
void sum(const ReducePlan& plan, const uint8_t* x, int64_t* y, double divisor);

/// NaN where there is one. Of nothing: the worst value of the type.
template <class T>
void max(const ReducePlan& plan, const T* x, T* y);
template <class T>
void min(const ReducePlan& plan, const T* x, T* y);

/// (sum |x|^p)^(1/p) for float and double; p = 0 counts what is not 0, p = infinity is the largest
/// |x|, p = -infinity the smallest (then at least one element must be reduced).
template <class T>
void norm(const ReducePlan& plan, const T* x, T* y, double p);

/// y[i] = x[0] + ... + x[i] along the middle axis of x (outer, n, inner), which lies without gaps.
template <class T, class Out>
void cumsum(const T* x, Out* y, int64_t outer, int64_t n, int64_t inner);

}  // namespace tern::kernels
