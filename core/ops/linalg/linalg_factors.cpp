// Cholesky and QR factorisations, and least squares, which uses them.
#include <limits>

#include "tern/core/ops/composed.h"
#include "tern/core/ops/linalg/linalg_call.h"
#include "tern/core/tape/autograd.h"

namespace tern::linalg {
namespace {

namespace lapack = kernels::lapack;
using detail::by_columns;
using detail::check_done;
using detail::Matrices;
using detail::product;
using detail::RightSide;

// S = L^-T P L^-1, P the lower triangle of L^T dL with halved diagonal; da = (S + S^T) / 2.
Tensor cholesky_gradient(const Tensor& l, const Tensor& dl) {
  Tensor p = product(transposed(l), dl);
  p = (tril(p) + tril(p, -1)) / 2;
  Tensor s = solve_triangular(transposed(l), p, {.upper = true});
  s = solve_triangular(l, s, {.upper = false, .left = false});
  return (s + transposed(s)) / 2;
}

struct Factors {
  Fresh q, r;
};

Factors factor(const Tensor& a, const Matrices& all, QrMode mode) {
  const int m = all.m, n = all.n, least = std::min(m, n);
  const int width = mode == QrMode::complete ? m : least;  // columns of q, rows of r
  Fresh q(all.shape({width, m}), a.dtype());               // column-major
  Tensor factors = by_columns(a);
  dispatch_float(a.dtype(), "linalg::qr", [&]<class T>() {
    T* from = static_cast<T*>(bytes(factors));
    T* to = q.data<T>();
    lapack::for_each_matrix(all.count, 4 * all.work(), [=](int64_t i) {
      std::vector<T> tau(static_cast<size_t>(least));
      T* own = from + i * m * n;
      int info = lapack::geqrf(m, n, own, tau.data());
      T* columns = to + i * width * m;
      std::copy(own, own + int64_t{m} * std::min(width, n), columns);
      return info ? info : lapack::orgqr(m, width, least, columns, tau.data());
    });
  });
  NoGradGuard guard;
  Tensor r = triu(narrow(transposed(factors), -2, 0, width)).contiguous();
  return {Fresh::adopt(transposed(not_differentiable(q))), Fresh::adopt(r)};
}

Tensor or_zeros(const Tensor& t, const Tensor& like) {
  return t.defined() ? t : zeros(like.shape(), like.dtype());
}

// For a with no fewer rows than columns: M = r dr^T - dq^T q,
// da = (dq + q (tril(M) + tril(M, -1)^T)) r^-T.
Tensor tall_gradient(const Tensor& q, const Tensor& r, const Tensor& dq, const Tensor& dr) {
  Tensor mixed = product(r, transposed(dr)) - product(transposed(dq), q);
  Tensor sum = dq + product(q, tril(mixed) + transposed(tril(mixed, -1)));
  return solve_triangular(transposed(r), sum, {.upper = false, .left = false});
}

// For a = (x | y) with more columns than rows: r = (u | v), v = q^T y.
Tensor qr_gradient(const Tensor& a, const Qr& f, const Tensor& dq_or_none,
                   const Tensor& dr_or_none) {
  const int64_t m = a.size(-2), n = a.size(-1);
  Tensor dq = or_zeros(dq_or_none, f.q), dr = or_zeros(dr_or_none, f.r);
  if (m >= n) return tall_gradient(f.q, f.r, dq, dr);
  Tensor dv = narrow(dr, -1, m, n - m);
  dq = dq + product(narrow(a, -1, m, n - m), transposed(dv));
  Tensor dx = tall_gradient(f.q, narrow(f.r, -1, 0, m), dq, narrow(dr, -1, 0, m));
  return cat({dx, product(f.q, dv)}, -1);
}

// Least squares by qr(), which has a gradient. Needs full rank.
Tensor least_squares(const Tensor& a, const Tensor& b) {
  if (a.size(-2) >= a.size(-1)) {
    const Qr f = qr(a);
    return solve_triangular(f.r, product(transposed(f.q), b), {.upper = true});
  }
  const Qr f = qr(transposed(a));
  return product(f.q, solve_triangular(transposed(f.r), b, {.upper = false}));
}

Tensor lstsq_matrices(const Tensor& a, const Tensor& b, const Matrices& all,
                      std::optional<double> given, const Fresh& rank) {
  Op op("linalg::lstsq", a, b);
  const int m = all.m, n = all.n, k = static_cast<int>(b.size(-1)), most = std::max(m, n);
  Tensor matrix = by_columns(a);
  Tensor x = by_columns(pad(b.detach(), {0, 0, 0, most - m}));
  dispatch_float(a.dtype(), "linalg::lstsq", [&]<class T>() {
    T* from = static_cast<T*>(bytes(matrix));
    T* to = static_cast<T*>(bytes(x));
    int64_t* ranks = rank.data<int64_t>();
    const T rcond = static_cast<T>(
        given.value_or(static_cast<double>(std::numeric_limits<T>::epsilon()) * most));
    auto one = [=](int64_t i) {
      int found = 0;
      const int info = lapack::gelsy(m, n, k, from + i * m * n, to + i * most * k, rcond, &found);
      ranks[i] = found;
      return info;
    };
    check_done("linalg::lstsq", lapack::for_each_matrix(all.count, 4 * all.work(), one), a.shape(),
               [](int info) { return fmt::format("fails with LAPACK's info {}", info); });
  });
  Tensor solution = transposed(narrow(x, -1, 0, n)).contiguous();
  return op.record(Fresh::adopt(solution), [a = save(a), b = save(b)](const Tensor& dx) {
    auto fn = [](const std::vector<Tensor>& in) { return least_squares(in[0], in[1]); };
    return composed_gradients(fn, {a.get(), b.get()}, dx);
  });
}

}  // namespace

// The lower triangle in row-major order is LAPACK's upper one.
Tensor cholesky(const Tensor& a, bool upper) {
  Op op("linalg::cholesky", a);
  const Matrices all = detail::square_matrices("linalg::cholesky", a);
  const int n = all.n;
  Tensor factors = a.detach().clone();
  dispatch_float(a.dtype(), "linalg::cholesky", [&]<class T>() {
    T* own = static_cast<T*>(bytes(factors));
    auto one = [=](int64_t i) { return lapack::potrf(!upper, n, own + i * n * n); };
    check_done("linalg::cholesky", lapack::for_each_matrix(all.count, all.work(), one), a.shape(),
               [](int order) {
                 return fmt::format(
                     "is not positive definite: its leading minor of order {} is not positive",
                     order);
               });
  });
  Fresh y = Fresh::adopt(upper ? triu(factors) : tril(factors));
  return op.record(y, [upper, y = save(y)](const Tensor& dy) {
    if (!upper) return cholesky_gradient(y.get(), dy);
    return cholesky_gradient(transposed(y.get()), transposed(dy));
  });
}

Qr qr(const Tensor& a, QrMode mode) {
  Op op("linalg::qr", a);
  const Matrices all("linalg::qr", a);
  const Factors f = factor(a, all, mode);
  const char* refused = nullptr;
  if (mode == QrMode::r) refused = "linalg::qr: QrMode::r has no gradient; ask for reduced";
  if (mode == QrMode::complete && all.m > all.n)
    refused =
        "linalg::qr: QrMode::complete of more rows than columns has no gradient; ask for "
        "reduced";
  // A recorded backward pass recomputes the factors from a, so that gradients flow through them.
  auto gradient = [refused, a = save(a), q = not_differentiable(f.q), r = not_differentiable(f.r)](
                      const Tensor& dq, const Tensor& dr) {
    check(!refused, "{}", refused ? refused : "");
    const Tensor from = a.get();
    return qr_gradient(from, grad_enabled() ? qr(from) : Qr{q, r}, dq, dr);
  };
  Qr result;
  result.r = op.record(f.r, [gradient](const Tensor& dr) { return gradient({}, dr); });
  if (mode == QrMode::r)
    result.q = empty({0}, a.dtype());
  else
    result.q = op.record(f.q, [gradient](const Tensor& dq) { return gradient(dq, {}); });
  return result;
}

Lstsq lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond) {
  const RightSide sides("linalg::lstsq", a, b, RightSide::Vectors::batch);
  const Matrices all("linalg::lstsq", sides.a);
  detail::check_finite_matrices("linalg::lstsq", sides.a);
  detail::check_finite_matrices("linalg::lstsq", sides.b);
  Fresh rank(all.batch, DType::i64);
  if (rank.numel() > 0 && all.size() == 0) std::fill_n(rank.data<int64_t>(), rank.numel(), 0);
  Tensor x = lstsq_matrices(sides.a, sides.b, all, rcond, rank);
  Lstsq result{sides.result(x), {}, not_differentiable(rank)};
  const bool full = all.m > all.n && (all.count == 0 || min(result.rank).item<int64_t>() == all.n);
  result.residuals = full ? sum(square(product(sides.a, x) - sides.b), -2) : empty({0}, a.dtype());
  return result;
}

}  // namespace tern::linalg
