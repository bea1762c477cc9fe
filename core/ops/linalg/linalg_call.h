// Shared by the ops of linalg.h: checks, copies that LAPACK may overwrite, errors in a batch.
// Inside of core only.
#pragma once

#include <limits>

#include "tern/core/base/precision.h"
#include "tern/core/kernels/linalg/lapack.h"
#include "tern/core/ops/linalg/linalg.h"
#include "tern/core/ops/memory.h"
#include "tern/core/ops/products/matmul.h"

namespace tern::detail {

/// A batch of matrices: (count, m, n).
struct Matrices {
  Matrices(const char* op, const Tensor& a) {
    check_defined(op, a);
    check(a.ndim() >= 2, "{}: needs matrices (..., m, n), got {}", op, a.shape());
    check(is_float(a.dtype()), "{}: needs f32 or f64, got {}; convert with .to(DType::f64)", op,
          a.dtype());
    const int64_t rows = a.size(-2), columns = a.size(-1);
    check(std::max(rows, columns) <= std::numeric_limits<int>::max() / 8,
          "{}: the matrices {} are too large for LAPACK's 32-bit sizes", op, a.shape());
    m = static_cast<int>(rows);
    n = static_cast<int>(columns);
    batch = Shape(a.shape().begin(), a.shape().end() - 2);
    count = numel(batch);
  }
  /// (batch..., sizes...).
  Shape shape(std::initializer_list<int64_t> sizes) const {
    Shape s = batch;
    for (int64_t size : sizes) s.push_back(size);
    return s;
  }
  int64_t size() const { return int64_t{m} * n; }
  /// The approximate number of multiplications to factorise all matrices.
  int64_t work() const { return count * size() * std::min(m, n); }
  Shape batch;
  int64_t count = 0;
  int m = 0, n = 0;
};

inline Matrices square_matrices(const char* op, const Tensor& a) {
  Matrices all(op, a);
  check(all.m == all.n, "{}: needs square matrices, got {}", op, a.shape());
  return all;
}

/// matmul in full precision, whatever MatmulPrecision other products use.
inline Tensor product(const Tensor& a, const Tensor& b) {
  MatmulPrecisionScope full(MatmulPrecision::f32);
  return matmul(a, b);
}

/// A copy in LAPACK's column-major order: a matrix (m, n) becomes a tensor (..., n, m).
inline Tensor by_columns(const Tensor& a) { return transposed(a.detach()).clone(); }

/// "matrix (0, 2) of (3, 4, 5, 5)".
std::string place_of(int64_t matrix, const Shape& shape);

/// Error for the first matrix of the batch that failed; `why` turns LAPACK's info into the reason.
template <class Why>
void check_done(const char* op, const kernels::lapack::Failure& f, const Shape& shape, Why why) {
  if (f.matrix >= 0) fail(fmt::format("{}: {} {}", op, place_of(f.matrix, shape), why(f.info)));
}

/// Error for the first matrix of the batch for which `bad`, u8 (batch, ...), is not all 0.
void check_none(const char* op, const Tensor& bad, const Shape& shape, const char* why);

/// Refuses infinities and NaN, on which LAPACK may never return.
void check_finite_matrices(const char* op, const Tensor& a);

/// b as matrices for a (..., m, n); a vector becomes one column. `vectors`: what counts as vectors.
struct RightSide {
  enum class Vectors {
    one,    ///< b (m)
    batch,  ///< and b (..., m) whose other axes are the batch of a
  };
  RightSide(const char* op, const Tensor& a, const Tensor& b, Vectors vectors);
  bool vector;
  Tensor a, b;  ///< with a common batch
  /// Brings a result into the form of b.
  Tensor result(const Tensor& x) const { return vector ? squeeze(x, -1) : x; }
};

}  // namespace tern::detail
