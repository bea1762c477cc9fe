// One matrix product on the calling thread, by BLAS or our own tiles (gemm_tiles.h), for gemm() and
// attention(). Inside of core only.
#pragma once

#include "tern/core/kernels/products/matrix.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {

/// Computes p. An empty sum gives beta C. T is float, double or int64_t (plain loops). Only if
/// matmul_precision() is bf16 may elements be stored as bfloat16. REQUIRES: blas_takes() A and B; a
/// BlasScope is held (not for int64_t).
template <class T>
void multiply(const Product<T>& p);

/// A matrix B (k, n) for several products. Each reads B's first rows and columns. B is packed once
/// if there are several products and our own tiles compute them. Otherwise multiply() reads it.
template <class T>
class SharedFactor {
 public:
  SharedFactor(const Matrix<T>& b, int64_t k, int64_t n, bool several);
  /// Computes p with the first k rows and n columns of this matrix as its B.
  void multiply(Product<T> p) const;

 private:
  Matrix<T> b_;
  int64_t k_, n_;
  bool packed_;
  Scratch<T> numbers_;
};

/// C *= beta, without reading C if beta is 0.
template <class T>
void scale(T* c, int64_t rows, int64_t cols, int64_t ldc, T beta);

}  // namespace tern::kernels
