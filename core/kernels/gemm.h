// Matrix products: C = A B + beta C for a batch of matrices of any layout that BLAS takes.
//
// The work is cut into panels of C by the shape alone, never by the number of threads, and each
// panel is computed by one thread, by single-threaded BLAS or by our own tiles (gemm_tiles.h): so
// results do not depend on the thread count, and many small products run side by side as well as
// one large one. Where C is small and the sums are long, the sums are cut too, and their parts are
// added in a fixed order. Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/base/shape.h"
#include "tern/core/kernels/matrix.h"

namespace tern::kernels {

/// The axes of a batch, with the strides of A (m x k), B (k x n) and C (m x n) along each. Where
/// the stride of C is 0 and the size is not 1, the products along the axis are summed.
struct BatchAxes {
  Dims sizes, a, b, c;
  void add(int64_t size, int64_t stride_a, int64_t stride_b, int64_t stride_c);
  void erase(int axis);
};

/// What decides how a batch of products is cut: all but the numbers.
struct Gemm {
  int64_t m = 0, n = 0, k = 0;
  MatrixStrides a, b, c;
  BatchAxes batch;
};

/// C = A B + beta C; with beta = 0 what C held does not matter. An empty sum gives beta C.
/// T is float, double or int64_t (plain loops). Elements are stored as bfloat16 where
/// matmul_precision() is bf16 alone.
/// REQUIRES: blas_takes() A, B and C. With `done`: C has column stride 1.
template <class T>
void gemm(const Gemm& shape, Elements<T> a, Elements<T> b, T* c, T beta = 0,
          const PanelDone& done = {});

}  // namespace tern::kernels
