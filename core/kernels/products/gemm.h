// Matrix products: C = A B + beta C for a batch of matrices in any layout that BLAS accepts.
//
// The work is cut into panels of C. One thread computes a panel, with single-threaded BLAS or our
// own tiles (gemm_tiles.h). Cuts that affect bits depend only on the shape. So results do not
// depend on the number of threads, and many small products run in parallel as well as one large
// one. If C is small and the sums are long, the sums are cut too, and their parts are added in a
// fixed order.
// Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/base/shape.h"
#include "tern/core/kernels/products/matrix.h"

namespace tern::kernels {

/// The axes of a batch, with the strides of A (m x k), B (k x n) and C (m x n) along each. If C has
/// stride 0 along an axis of size > 1, the products along it are summed.
struct BatchAxes {
  Dims sizes, a, b, c;
  void add(int64_t size, int64_t stride_a, int64_t stride_b, int64_t stride_c);
  void erase(int axis);
};

/// The shape and strides of a batch of products: everything that decides how it is cut.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  MatrixStrides a, b, c;
  BatchAxes batch;
};

/// C = A B + beta C; beta = 0 ignores the old C. An empty sum gives beta C. T is float, double or
/// int64_t (plain loops). Only if matmul_precision() is bf16 may elements be stored as bfloat16.
/// REQUIRES: blas_takes() A, B and C. With `done`: C has column stride 1.
template <class T>
void gemm(const Gemm& shape, Elements<T> a, Elements<T> b, T* c, T beta = 0,
          const PanelDone& done = {});

}  // namespace tern::kernels
