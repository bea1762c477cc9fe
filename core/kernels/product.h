// One matrix product on the calling thread, by BLAS or by our own tiles (gemm_tiles.h): what gemm()
// and attention() are made of. Inside of core only.
#pragma once

#include "tern/core/kernels/matrix.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {

/// An empty sum gives beta C. T is float, double or int64_t (plain loops). Elements are stored as
/// bfloat16 where matmul_precision() is bf16 alone.
/// REQUIRES: blas_takes() A and B; a BlasScope is held (not for int64_t).
template <class T>
void multiply(const Product<T>& p);

/// B (k, n) of products that read its first rows and columns, each. Where there are several of them
/// and our own tiles compute them, it is packed once; else they are as multiply() has them.
template <class T>
class SharedFactor {
 public:
  SharedFactor(const Matrix<T>& b, int64_t k, int64_t n, bool several);
  /// p, whose B is the first k rows and n columns of this one.
  void multiply(Product<T> p) const;

 private:
  Matrix<T> b_;
  int64_t k_, n_;
  bool packed_;
  Scratch<T> numbers_;
};

/// C *= beta, without reading C where beta is 0.
template <class T>
void scale(T* c, int64_t rows, int64_t cols, int64_t ldc, T beta);

}  // namespace tern::kernels
