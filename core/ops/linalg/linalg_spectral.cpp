// Singular values, eigenvalues of symmetric matrices, and norms built from them.
#include <cmath>

#include "tern/core/ops/linalg/linalg_call.h"
#include "tern/core/tape/autograd.h"

namespace tern::linalg {
namespace {

namespace lapack = kernels::lapack;
using detail::check_done;
using detail::Matrices;
using detail::product;

std::string unconverged(int info) {
  return fmt::format("did not converge (LAPACK's info is {})", info);
}

struct Parts {
  Fresh u, s, vh;
};

// LAPACK reads row-major a as a^T = vh^T s u^T. Its u is our vh, row-major, and vice versa.
Parts decompose(const Tensor& a, const Matrices& all, char job) {
  const int m = all.m, n = all.n, k = std::min(m, n);
  const bool none = job == 'N';
  const int wide_u = none ? 0 : job == 'A' ? m : k, wide_v = none ? 0 : job == 'A' ? n : k;
  Parts p{Fresh(all.shape({m, wide_u}), a.dtype()), Fresh(all.shape({k}), a.dtype()),
          Fresh(all.shape({wide_v, n}), a.dtype())};
  if (k == 0) {  // LAPACK does not write u and vh
    if (!none) {
      NoGradGuard guard;
      copy_(not_differentiable(p.u), eye(m, wide_u, a.dtype()));
      copy_(not_differentiable(p.vh), eye(wide_v, n, a.dtype()));
    }
    return p;
  }
  Tensor from = a.detach().clone();
  dispatch_float(a.dtype(), "linalg::svd", [&]<class T>() {
    T* matrices = static_cast<T*>(bytes(from));
    T *u = p.u.data<T>(), *s = p.s.data<T>(), *vh = p.vh.data<T>();
    auto one = [=](int64_t i) {
      return lapack::gesdd(job, n, m, matrices + i * m * n, s + i * k, vh + i * wide_v * n, n,
                           u + i * m * wide_u, wide_u);
    };
    check_done("linalg::svd", lapack::for_each_matrix(all.count, 10 * all.work(), one), a.shape(),
               unconverged);
  });
  return p;
}

// b_j - b_i, with ones on the diagonal. Refuses equal b, whose vectors are not unique: any rotation
// of them is valid too.
Tensor differences(const char* op, const Tensor& b, const char* what) {
  const Tensor e = unsqueeze(b, -2) - unsqueeze(b, -1);
  const int64_t n = b.size(-1);
  const Tensor one = eye(n, n, b.dtype());
  check(any(eq(e + one, 0)).item<int>() == 0, "{}: the gradient of vectors needs distinct {}", op,
        what);
  return e + one;
}

Tensor off_diagonal(const Tensor& x) { return x * (1 - eye(x.size(-1), x.size(-1), x.dtype())); }

Tensor skew(const Tensor& x) { return x - transposed(x); }

/// The gradient of a = u diag(s) vh. Each of du, ds and dvh may be undefined.
struct SvdGradient {
  Svd d;
  Tensor operator()(const Tensor& du, const Tensor& ds, const Tensor& dvh) const {
    const Tensor row = unsqueeze(d.s, -2), column = unsqueeze(d.s, -1);
    if (ds.defined()) return product(d.u * unsqueeze(ds, -2), d.vh);
    const Tensor e = differences("linalg::svd", square(d.s), "singular values");
    if (du.defined()) {
      const Tensor inner = product(transposed(d.u), du);
      Tensor da = product(product(d.u, off_diagonal(skew(inner)) / e * row), d.vh);
      if (d.u.size(-2) == d.u.size(-1)) return da;
      return da + product((du - product(d.u, inner)) / row, d.vh);
    }
    const Tensor inner = product(d.vh, transposed(dvh));
    Tensor da = product(product(d.u, off_diagonal(skew(inner)) / e * column), d.vh);
    if (d.vh.size(-2) == d.vh.size(-1)) return da;
    return da + product(d.u, (dvh - product(transposed(inner), d.vh)) / column);
  }
};

Tensor singular_values(const Tensor& a, const Matrices& all) {
  Op op("linalg::svd", a);
  return op.not_differentiable(decompose(a, all, 'N').s);
}

}  // namespace

Svd svd(const Tensor& a, bool full_matrices) {
  Op op("linalg::svd", a);
  const Matrices all("linalg::svd", a);
  detail::check_finite_matrices("linalg::svd", a);
  const Parts p = decompose(a, all, full_matrices ? 'A' : 'S');
  const Svd values{not_differentiable(p.u), not_differentiable(p.s), not_differentiable(p.vh)};
  const bool more = full_matrices && all.m != all.n;
  // A recorded backward pass recomputes the factors from a, so that gradients flow through them.
  auto gradient = [a = save(a), values, more, k = std::min(all.m, all.n)](
                      const Tensor& du, const Tensor& ds, const Tensor& dvh) {
    check(!more || ds.defined(),
          "linalg::svd: u and vh of full_matrices have no gradient; ask for full_matrices = false");
    if (grad_enabled()) return SvdGradient{svd(a.get(), false)}(du, ds, dvh);
    const Svd reduced{narrow(values.u, -1, 0, k), values.s, narrow(values.vh, -2, 0, k)};
    return SvdGradient{reduced}(du, ds, dvh);
  };
  Svd result;
  result.u = op.record(p.u, [gradient](const Tensor& du) { return gradient(du, {}, {}); });
  result.s = op.record(p.s, [gradient](const Tensor& ds) { return gradient({}, ds, {}); });
  result.vh = op.record(p.vh, [gradient](const Tensor& dvh) { return gradient({}, {}, dvh); });
  return result;
}

Tensor svdvals(const Tensor& a) {
  const Matrices all("linalg::svd", a);
  if (recording({a})) return svd(a, false).s;
  detail::check_finite_matrices("linalg::svd", a);
  return singular_values(a, all);
}

// da = v (diag(dw) + v^T dv / (w_j - w_i)) v^T, its symmetric part. A triangle in row-major order
// is LAPACK's other one.
Eigh eigh(const Tensor& a, Triangle triangle) {
  Op op("linalg::eigh", a);
  const Matrices all = detail::square_matrices("linalg::eigh", a);
  detail::check_finite_matrices("linalg::eigh", a);
  const int n = all.n;
  Tensor vectors = a.detach().clone();
  Fresh w(all.shape({n}), a.dtype());
  dispatch_float(a.dtype(), "linalg::eigh", [&]<class T>() {
    T *own = static_cast<T*>(bytes(vectors)), *values = w.data<T>();
    auto one = [=](int64_t i) {
      return lapack::syevd(true, triangle == Triangle::lower, n, own + i * n * n, values + i * n);
    };
    check_done("linalg::eigh", lapack::for_each_matrix(all.count, 10 * all.work(), one), a.shape(),
               unconverged);
  });
  Fresh v = Fresh::adopt(transposed(vectors));
  const Eigh values{not_differentiable(w), not_differentiable(v)};
  auto factors = [a = save(a), values, triangle] {
    return grad_enabled() ? eigh(a.get(), triangle) : values;
  };
  Eigh result;
  result.eigenvalues = op.record(w, [factors](const Tensor& dw) {
    const Tensor v = factors().eigenvectors;
    return product(v * unsqueeze(dw, -2), transposed(v));
  });
  result.eigenvectors = op.record(v, [factors](const Tensor& dv) {
    const Eigh f = factors();
    const Tensor e = differences("linalg::eigh", f.eigenvalues, "eigenvalues");
    const Tensor inner = off_diagonal(product(transposed(f.eigenvectors), dv)) / e;
    Tensor da = product(product(f.eigenvectors, inner), transposed(f.eigenvectors));
    return (da + transposed(da)) / 2;
  });
  return result;
}

Tensor eigvalsh(const Tensor& a, Triangle triangle) { return eigh(a, triangle).eigenvalues; }

namespace {

// Moves the axes of the matrices to the end: their norm is (batch...).
struct NormOf {
  NormOf(const Tensor& a, const MatrixAxes& o) : options(o) {
    check_defined("linalg::matrix_norm", a);
    check(a.ndim() >= 2 && is_float(a.dtype()),
          "linalg::matrix_norm: needs f32 or f64 matrices (..., m, n), got {} {}", a.dtype(),
          a.shape());
    rows = normalize_axis("linalg::matrix_norm", o.rows, a.ndim());
    columns = normalize_axis("linalg::matrix_norm", o.columns, a.ndim());
    check(rows != columns, "linalg::matrix_norm: rows and columns are both axis {}", rows);
    Dims order;
    for (int axis = 0; axis < a.ndim(); ++axis)
      if (axis != rows && axis != columns) order.push_back(axis);
    order.push_back(rows);
    order.push_back(columns);
    matrices = permute(a, order);
  }
  Tensor result(Tensor norm) const {
    if (!options.keepdim) return norm;
    norm = unsqueeze(norm, std::min(rows, columns));
    return unsqueeze(norm, std::max(rows, columns));
  }
  MatrixAxes options;
  int rows, columns;
  Tensor matrices;
};

}  // namespace

Tensor matrix_norm(const Tensor& a, MatrixNorm kind, const MatrixAxes& axes) {
  const NormOf of(a, axes);
  if (kind == MatrixNorm::frobenius) return of.result(norm(of.matrices, 2, {-2, -1}));
  return of.result(sum(svdvals(of.matrices), -1));
}

Tensor matrix_norm(const Tensor& a, double order, const MatrixAxes& axes) {
  const NormOf of(a, axes);
  const double size = std::abs(order);
  check(size == 1 || size == 2 || std::isinf(order),
        "linalg::matrix_norm: the order is {}, not 1, 2 or infinity with either sign", order);
  Tensor each = size == 2 ? svdvals(of.matrices) : sum(abs(of.matrices), size == 1 ? -2 : -1);
  if (each.size(-1) > 0) return of.result(order > 0 ? amax(each, -1) : amin(each, -1));
  check(order > 0, "linalg::matrix_norm: order {} is the smallest of no values, in shape {}", order,
        a.shape());
  return of.result(sum(each, -1));
}

}  // namespace tern::linalg
