// Linear algebra: PyTorch's torch.linalg, on LAPACK. Matrices are the last two axes of f32 or f64
// tensors (..., m, n). All axes before them are a batch; batches broadcast. Threads share the
// matrices of a batch, and LAPACK uses one thread per matrix. So results do not depend on the
// number of threads.
//
// Errors name the op and the matrix's place in the batch: no inverse, no Cholesky factor; in svd,
// eigh, lstsq and norms by singular values also NaN or infinite elements, with which the other
// functions compute. Gradients go to second order unless an op says otherwise.
// Sources: Giles 2008, "Collected matrix derivative results"; Walter & Lehmann 2010 (qr).
#pragma once

#include <optional>

#include "tern/core/ops/ops.h"

namespace tern {

// ---- Vectors and matrices, any dtype -----------------------------------------------------------
Tensor outer(const Tensor& a, const Tensor& b);  ///< (n,), (m,) -> (n, m)
Tensor trace(const Tensor& x);                   ///< sum of a matrix's diagonal
/// Zeros with the last axis of x as the diagonal over two new axes a and b.
Tensor diag_embed(const Tensor& x, int64_t offset = 0, int64_t a = -2, int64_t b = -1);
/// Distances |a_i - b_j|_p: a (..., n, d), b (..., m, d) -> (..., n, m), p >= 0 or infinite. Equal
/// points have gradient 0. For p other than 2 the gradient needs memory for all n m d differences.
Tensor cdist(const Tensor& a, const Tensor& b, double p = 2);

namespace linalg {

// ---- Linear systems ---------------------------------------------------------------------------
Tensor inv(const Tensor& a);
/// a^-1 b. b (..., n, k); or (..., n) if its other axes are the batch of a.
Tensor solve(const Tensor& a, const Tensor& b);
struct TriangularOptions {
  bool upper = false;          ///< which triangle of a is read
  bool left = true;            ///< false: b a^-1
  bool unitriangular = false;  ///< treat the diagonal as ones, without reading it
};
/// a^-1 b for triangular a. b (..., n, k), or (n); with left = false (..., k, n).
Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& options);
/// At a singular matrix the gradient consists of cofactors, and a second derivative is an error.
Tensor det(const Tensor& a);
struct [[nodiscard]] Slogdet {
  Tensor sign;       ///< -1, 0 or 1
  Tensor logabsdet;  ///< log |det|; its gradient is an error at a singular matrix
};
Slogdet slogdet(const Tensor& a);
struct [[nodiscard]] Lstsq {
  Tensor solution;   ///< (..., n, k)
  Tensor residuals;  ///< (..., k): |a x - b|^2; empty if m <= n or a matrix has rank below n
  Tensor rank;       ///< i64 (...)
};
/// The shortest x that minimises |a x - b|: a (..., m, n) of any rank, b (..., m, k) or (..., m).
/// Singular values below rcond (default eps max(m, n)) times the largest count as 0. The gradient
/// needs full rank.
Lstsq lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond = {});

// ---- Factorisations ---------------------------------------------------------------------------
/// a = L L^T, or U^T U with `upper`; a is symmetric positive definite, only that triangle is read.
Tensor cholesky(const Tensor& a, bool upper = false);
enum class QrMode {
  reduced,   ///< q (..., m, k), r (..., k, n), k = min(m, n)
  complete,  ///< q (..., m, m), r (..., m, n); no gradient if m > n
  r,         ///< r as in reduced, q empty; no gradient
};
struct [[nodiscard]] Qr {
  Tensor q, r;
};
Qr qr(const Tensor& a, QrMode mode = QrMode::reduced);
struct [[nodiscard]] Svd {
  Tensor u;   ///< (..., m, m), or (..., m, k) if not full, k = min(m, n)
  Tensor s;   ///< (..., k), descending
  Tensor vh;  ///< (..., n, n), or (..., k, n)
};
/// a = u diag(s) vh. Gradients of u and vh need full_matrices = false and distinct singular values.
Svd svd(const Tensor& a, bool full_matrices = true);
Tensor svdvals(const Tensor& a);
enum class Triangle { lower, upper };
struct [[nodiscard]] Eigh {
  Tensor eigenvalues;   ///< (..., n), ascending
  Tensor eigenvectors;  ///< (..., n, n), in columns; gradients need distinct eigenvalues
};
/// a is symmetric; only the given triangle is read.
Eigh eigh(const Tensor& a, Triangle triangle = Triangle::lower);
Tensor eigvalsh(const Tensor& a, Triangle triangle = Triangle::lower);

// ---- Norms -----------------------------------------------------------------------------------
enum class MatrixNorm { frobenius, nuclear };
struct MatrixAxes {
  int64_t rows = -2, columns = -1;
  bool keepdim = false;
};
Tensor matrix_norm(const Tensor& a, MatrixNorm norm = MatrixNorm::frobenius,
                   const MatrixAxes& axes = {});
/// order 1, -1: the largest (smallest) column sum of |a|; infinity, -infinity: the same for rows;
/// 2, -2: the largest (smallest) singular value. Of no values the largest is 0, and the smallest is
/// an error.
Tensor matrix_norm(const Tensor& a, double order, const MatrixAxes& axes = {});

}  // namespace linalg

using linalg::det;
inline Tensor inverse(const Tensor& a) { return linalg::inv(a); }

}  // namespace tern
