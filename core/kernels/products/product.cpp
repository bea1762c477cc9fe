// Passes a product on to bf16 code, our own tiles, matrix-vector code or BLAS.
#include "tern/core/kernels/products/product.h"

extern "C" {  // ATLAS's header has none
#include <cblas.h>
}

#include <algorithm>
#include <type_traits>

#include "tern/core/base/precision.h"
#include "tern/core/base/products.h"
#include "tern/core/base/simd.h"
#include "tern/core/kernels/bf16/gemm_bf16.h"
#include "tern/core/kernels/products/gemm_tiles.h"
#include "tern/core/kernels/products/matrix_vector.h"

namespace tern::kernels {
namespace {

/// A matrix for BLAS: row-major with leading dimension ld, or the transpose of one.
template <class T>
struct Operand {
  const T* data;
  CBLAS_TRANSPOSE op;
  int ld;
};

template <class T>
Operand<T> operand(const T* data, int64_t rows, int64_t cols, MatrixStrides s) {
  bool row_major = (s.col == 1 || cols == 1) && (rows == 1 || s.row >= cols);
  int64_t ld = row_major ? (rows == 1 ? cols : s.row) : (cols == 1 ? rows : s.col);
  return {data, row_major ? CblasNoTrans : CblasTrans, static_cast<int>(std::max<int64_t>(ld, 1))};
}

void call_gemm(int m, int n, int k, Operand<float> a, Operand<float> b, float beta, float* c,
               int ldc) {
  cblas_sgemm(CblasRowMajor, a.op, b.op, m, n, k, 1, a.data, a.ld, b.data, b.ld, beta, c, ldc);
}

void call_gemm(int m, int n, int k, Operand<double> a, Operand<double> b, double beta, double* c,
               int ldc) {
  cblas_dgemm(CblasRowMajor, a.op, b.op, m, n, k, 1, a.data, a.ld, b.data, b.ld, beta, c, ldc);
}

/// Whether our own tiles compute f32 products.
template <class T>
bool by_tiles() {
  return std::is_same_v<T, float> && matmul_precision() != MatmulPrecision::bf16 &&
         !products_by_blas();
}

/// y += op(A) x, with A stored as rows x cols.
void call_gemv(Operand<float> a, int rows, int cols, const float* x, int incx, float* y, int incy) {
  cblas_sgemv(CblasRowMajor, a.op, rows, cols, 1, a.data, a.ld, x, incx, 1, y, incy);
}

void call_gemv(Operand<double> a, int rows, int cols, const double* x, int incx, double* y,
               int incy) {
  cblas_dgemv(CblasRowMajor, a.op, rows, cols, 1, a.data, a.ld, x, incx, 1, y, incy);
}

/// y += M x for an m x n matrix M.
template <class T>
void multiply_vector(const Matrix<T>& matrix, int64_t m, int64_t n, const T* x, int64_t incx, T* y,
                     int64_t incy) {
  if constexpr (std::is_same_v<T, float>) {
    if (by_tiles<T>()) return add_matrix_vector(matrix, m, n, x, incx, y, incy);
  }
  Operand<T> a = operand(numbers(matrix.data), m, n, matrix.strides);
  bool as_stored = a.op == CblasNoTrans;
  call_gemv(a, static_cast<int>(as_stored ? m : n), static_cast<int>(as_stored ? n : m), x,
            static_cast<int>(incx), y, static_cast<int>(incy));
}

}  // namespace

template <class T>
void scale(T* c, int64_t rows, int64_t cols, int64_t ldc, T beta) {
  if (beta == T(1)) return;
  for (int64_t i = 0; i < rows; ++i) {
    T* row = c + i * ldc;
    if (beta == T(0)) {
      std::fill(row, row + cols, T(0));
    } else {
      simd([=] {
        for (int64_t j = 0; j < cols; ++j) row[j] *= beta;
      });
    }
  }
}

template <class T>
void multiply(const Product<T>& p) {
  if (p.m == 0 || p.n == 0) return;
  if (p.k == 0) return scale(p.c, p.m, p.n, p.ldc, p.beta);
  const MatrixStrides sa = p.a.strides, sb = p.b.strides;
  if constexpr (std::is_same_v<T, float>) {
    if (matmul_precision() == MatmulPrecision::bf16) return multiply_bf16(p);
  }
  if (p.m == 1 || p.n == 1) {
    scale(p.c, p.m, p.n, p.ldc, p.beta);
    const int64_t inc_a = p.k == 1 ? 1 : sa.col, inc_b = p.k == 1 ? 1 : sb.row;
    if (p.n == 1)
      multiply_vector(p.a, p.m, p.k, numbers(p.b.data), inc_b, p.c, p.m == 1 ? 1 : p.ldc);
    else
      multiply_vector(p.b.transposed(), p.n, p.k, numbers(p.a.data), inc_a, p.c, 1);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (by_tiles<T>()) return multiply_tiles(p);
  }
  call_gemm(static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k),
            operand(numbers(p.a.data), p.m, p.k, sa), operand(numbers(p.b.data), p.k, p.n, sb),
            p.beta, p.c, static_cast<int>(p.ldc));
}

template <>
void multiply(const Product<int64_t>& p) {
  const MatrixStrides sa = p.a.strides, sb = p.b.strides;
  scale(p.c, p.m, p.n, p.ldc, p.beta);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t l = 0; l < p.k; ++l) {
      const int64_t x = p.a.data[i * sa.row + l * sa.col];
      const int64_t* row = p.b.data + l * sb.row;
      for (int64_t j = 0; j < p.n; ++j) p.c[i * p.ldc + j] += x * row[j * sb.col];
    }
}

template <class T>
SharedFactor<T>::SharedFactor(const Matrix<T>& b, int64_t k, int64_t n, bool several)
    : b_(b),
      k_(k),
      n_(n),
      packed_(several && k > 0 && n > 0 && by_tiles<T>()),
      numbers_(packed_ ? PackedTiles::size(k, n) : 0) {
  if constexpr (std::is_same_v<T, float>)
    if (packed_) pack_tiles(b, {k, n, numbers_.data()});
}

template <class T>
void SharedFactor<T>::multiply(Product<T> p) const {
  p.b = b_;
  if constexpr (std::is_same_v<T, float>)
    if (packed_ && p.m > 0 && p.n > 0 && p.k > 0)
      return multiply_packed_tiles(p, {k_, n_, numbers_.data()});
  kernels::multiply(p);
}

template class SharedFactor<float>;
template class SharedFactor<double>;
template void multiply(const Product<float>&);
template void multiply(const Product<double>&);
template void scale(float*, int64_t, int64_t, int64_t, float);
template void scale(double*, int64_t, int64_t, int64_t, double);
template void scale(int64_t*, int64_t, int64_t, int64_t, int64_t);

}  // namespace tern::kernels
