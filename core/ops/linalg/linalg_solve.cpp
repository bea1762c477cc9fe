// Linear systems, inverses and determinants, by LU factorisation with pivoting.
#include <algorithm>
#include <cmath>
#include <limits>

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
using detail::square_matrices;

std::string singular(int pivot) {
  return fmt::format("is singular: pivot {} of its LU factors is 0", pivot);
}

// x = a^-1 b for equal batches: db = a^-T dx, da = -db x^T.
Tensor solve_matrices(const Tensor& a, const Tensor& b) {
  Op op("linalg::solve", a, b);
  const Matrices all = square_matrices("linalg::solve", a);
  const int n = all.n, k = static_cast<int>(b.size(-1));
  Tensor factors = by_columns(a), x = by_columns(b);
  dispatch_float(a.dtype(), "linalg::solve", [&]<class T>() {
    T* lu = static_cast<T*>(bytes(factors));
    T* columns = static_cast<T*>(bytes(x));
    auto one = [=](int64_t i) {
      std::vector<int> pivots(static_cast<size_t>(n));
      T* own = lu + i * n * n;
      const int info = lapack::getrf(n, n, own, pivots.data());
      return info ? info : lapack::getrs(n, k, own, pivots.data(), columns + i * n * k);
    };
    check_done("linalg::solve",
               lapack::for_each_matrix(all.count, all.work() + all.size() * k, one), a.shape(),
               singular);
  });
  Fresh out = Fresh::adopt(transposed(x));
  return op.record(out, [a = save(a), x = save(out)](const Tensor& dx, const Wants& wants) {
    Tensor db = solve(transposed(a.get()), dx);
    return Gradients{wants[0] ? -product(db, transposed(x.get())) : Tensor(), db};
  });
}

// Calls fn(matrix, diagonal, sign) with the n diagonal elements of LU and the permutation's sign.
template <class T, class Fn>
void for_each_diagonal(const Tensor& a, const Matrices& all, Fn fn) {
  Tensor factors = by_columns(a);
  T* lu = static_cast<T*>(bytes(factors));
  const int n = all.n;
  lapack::for_each_matrix(all.count, all.work(), [=](int64_t i) {
    std::vector<int> pivots(static_cast<size_t>(n));
    T* own = lu + i * n * n;
    lapack::getrf(n, n, own, pivots.data());
    double sign = 1;
    for (int j = 0; j < n; ++j) {
      if (pivots[static_cast<size_t>(j)] != j + 1) sign = -sign;
      own[j] = own[int64_t{j} * (n + 1)];  // row 0 of column j is no longer needed
    }
    fn(i, own, sign);
    return 0;
  });
}

// For each element, the product of the others along the last axis.
Tensor product_of_others(const Tensor& s) {
  const int64_t n = s.size(-1);
  Tensor y = ones(s.shape(), s.dtype());
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j)
      if (i != j) mul_(select(y, -1, i), select(s, -1, j));
  return y;
}

// The cofactors det(a) a^-T of a, for singular matrices too. For a = u diag(s) vh they are det(u)
// det(vh) u diag(product of the other s) vh.
Tensor cofactors(const Tensor& a) {
  const Svd d = svd(a);
  Tensor sign = unsqueeze(unsqueeze(det(d.u) * det(d.vh), -1), -1);
  return sign * product(d.u * unsqueeze(product_of_others(d.s), -2), d.vh);
}

Tensor as_factor(const Tensor& t) { return unsqueeze(unsqueeze(t, -1), -1); }

}  // namespace

Tensor solve(const Tensor& a, const Tensor& b) {
  square_matrices("linalg::solve", a);
  const RightSide sides("linalg::solve", a, b, RightSide::Vectors::batch);
  return sides.result(solve_matrices(sides.a, sides.b));
}

// dx = -y^T dy y^T.
Tensor inv(const Tensor& a) {
  Op op("linalg::inv", a);
  const Matrices all = square_matrices("linalg::inv", a);
  Tensor y = by_columns(a);
  const int n = all.n;
  dispatch_float(a.dtype(), "linalg::inv", [&]<class T>() {
    T* lu = static_cast<T*>(bytes(y));
    auto one = [=](int64_t i) {
      std::vector<int> pivots(static_cast<size_t>(n));
      T *own = lu + i * n * n, *end = own + int64_t{n} * n;
      // With NaN in the matrix, getri would give zeros.
      if (std::any_of(own, end, [](T v) { return std::isnan(v); })) {
        std::fill(own, end, std::numeric_limits<T>::quiet_NaN());
        return 0;
      }
      const int info = lapack::getrf(n, n, own, pivots.data());
      return info ? info : lapack::getri(n, own, pivots.data());
    };
    check_done("linalg::inv", lapack::for_each_matrix(all.count, 3 * all.work(), one), a.shape(),
               singular);
  });
  Fresh out = Fresh::adopt(transposed(y));
  return op.record(out, [y = save(out)](const Tensor& dy) {
    Tensor t = transposed(y.get());
    return -product(product(t, dy), t);
  });
}

// x = a^-1 b: db = a^-T dx, da = -db x^T in the triangle.
Tensor solve_triangular(const Tensor& a, const Tensor& b, const TriangularOptions& o) {
  static constexpr const char* kName = "linalg::solve_triangular";
  const Matrices all = square_matrices(kName, a);
  check_defined(kName, a, b);
  if (!o.left) {
    check(b.ndim() >= 2, "{}: the left side must be matrices, got {}", kName, b.shape());
    return transposed(solve_triangular(transposed(a), transposed(b),
                                       {.upper = !o.upper, .unitriangular = o.unitriangular}));
  }
  if (const RightSide sides(kName, a, b, RightSide::Vectors::one);
      sides.a.shape() != a.shape() || sides.vector || sides.b.shape() != b.shape())
    return sides.result(solve_triangular(sides.a, sides.b, o));
  Op op(kName, a, b);
  Tensor matrix = a.detach().contiguous(), x = b.detach().clone();
  if (!o.unitriangular)
    detail::check_none(kName, eq(diagonal(matrix, 0, -2, -1), 0), a.shape(),
                       "is singular: its diagonal has a 0");
  const int n = all.n, k = static_cast<int>(b.size(-1));
  dispatch_float(a.dtype(), kName, [&]<class T>() {
    const T* from = matrix.data<T>();
    T* to = static_cast<T*>(bytes(x));
    lapack::for_each_matrix(all.count, all.size() * k * all.count, [=](int64_t i) {
      lapack::trsm(o.upper, o.unitriangular, n, k, from + i * n * n, to + i * n * k);
      return 0;
    });
  });
  Fresh out = Fresh::adopt(x);
  auto vjp = [o, a = save(a), x = save(out)](const Tensor& dx, const Wants& wants) {
    TriangularOptions turned = o;
    turned.upper = !o.upper;
    Tensor db = solve_triangular(transposed(a.get()), dx, turned);
    if (!wants[0]) return Gradients{{}, db};
    Tensor da = -product(db, transposed(x.get()));
    const int64_t inside = o.unitriangular ? 1 : 0;
    return Gradients{o.upper ? triu(da, inside) : tril(da, -inside), db};
  };
  return op.record(out, std::move(vjp));
}

// da = dy det(a) a^-T, the cofactors if det(a) is 0.
Tensor det(const Tensor& a) {
  Op op("linalg::det", a);
  const Matrices all = square_matrices("linalg::det", a);
  Fresh y(all.batch, a.dtype());
  dispatch_float(a.dtype(), "linalg::det", [&]<class T>() {
    T* to = y.data<T>();
    for_each_diagonal<T>(a, all, [=, n = all.n](int64_t i, const T* pivots, double sign) {
      T product = static_cast<T>(sign);
      for (int j = 0; j < n; ++j) product *= pivots[j];
      to[i] = product;
    });
  });
  return op.record(y, [a = save(a), y = save(y)](const Tensor& dy) {
    const Tensor value = y.get();
    if (tern::any(eq(value, 0)).item<int>() == 0)
      return as_factor(dy * value) * transposed(inv(a.get()));
    check(!grad_enabled(), "linalg::det: has no second derivative at singular matrices");
    return as_factor(dy) * cofactors(a.get());
  });
}

// d log |det(a)| = a^-T.
Slogdet slogdet(const Tensor& a) {
  Op op("linalg::slogdet", a);
  const Matrices all = square_matrices("linalg::slogdet", a);
  Fresh sign(all.batch, a.dtype()), y(all.batch, a.dtype());
  dispatch_float(a.dtype(), "linalg::slogdet", [&]<class T>() {
    T* signs = sign.data<T>();
    T* logs = y.data<T>();
    for_each_diagonal<T>(a, all, [=, n = all.n](int64_t i, const T* pivots, double turned) {
      double sum = 0;
      for (int j = 0; j < n; ++j) {
        turned = pivots[j] == 0 ? 0 : pivots[j] < 0 ? -turned : turned;
        sum += std::log(std::abs(static_cast<double>(pivots[j])));
      }
      signs[i] = static_cast<T>(turned);
      logs[i] = static_cast<T>(sum);
    });
  });
  Tensor of_sign = not_differentiable(sign);
  Tensor logabsdet = op.record(y, [a = save(a), s = save(of_sign)](const Tensor& dy) {
    check(tern::any(eq(s.get(), 0)).item<int>() == 0,
          "linalg::slogdet: a singular matrix has no gradient");
    return as_factor(dy) * transposed(inv(a.get()));
  });
  return {of_sign, logabsdet};
}

}  // namespace tern::linalg
