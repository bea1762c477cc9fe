// linalg in the op table: inverses, solutions, determinants and factors against their definitions.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/threads.h"
#include "tern/core/ops/linalg/linalg.h"
#include "tern/tests/core/ops/op_table.h"

namespace tern::ops_linalg {
namespace {

using test::op, test::Args, test::Array, test::Arrays, test::Doubles, test::for_each_index,
    test::OpRow;

Tensor t_of(const Tensor& a) { return transpose(a, -2, -1); }
Tensor eye_like(const Tensor& a) { return eye(a.size(-1), a.size(-1), a.dtype()); }
/// A symmetric positive definite matrix made from any square a.
Tensor definite(const Tensor& a) { return matmul(a, t_of(a)) + 2 * eye_like(a); }
/// a plus a diagonal that keeps it far from singular.
Tensor regular(const Tensor& a) { return a + 4 * eye_like(a); }

/// regular() on plain arrays: adds 4 to the diagonal.
Array regular_of(const Array& x) {
  Array y = x;
  for_each_index(y.shape, [&](const Dims& i) {
    if (i[i.size() - 1] == i[i.size() - 2]) y.at(i) += 4;
  });
  return y;
}

/// a^-1 b of a batch by Gauss-Jordan elimination with pivots; optionally also the determinants.
Array eliminated(Array a, Array b, Array* determinants = nullptr) {
  const int64_t batch = a.shape[0], n = a.shape[1], k = b.shape[2];
  for (int64_t t = 0; t < batch; ++t) {
    double det = 1;
    for (int64_t j = 0; j < n; ++j) {
      int64_t best = j;
      for (int64_t i = j; i < n; ++i)
        if (std::abs(a.at({t, i, j})) > std::abs(a.at({t, best, j}))) best = i;
      if (best != j) det = -det;
      for (int64_t c = 0; c < n; ++c) std::swap(a.at({t, j, c}), a.at({t, best, c}));
      for (int64_t c = 0; c < k; ++c) std::swap(b.at({t, j, c}), b.at({t, best, c}));
      const double pivot = a.at({t, j, j});
      det *= pivot;
      for (int64_t c = 0; c < n; ++c) a.at({t, j, c}) /= pivot;
      for (int64_t c = 0; c < k; ++c) b.at({t, j, c}) /= pivot;
      for (int64_t i = 0; i < n; ++i) {
        if (i == j) continue;
        const double f = a.at({t, i, j});
        for (int64_t c = 0; c < n; ++c) a.at({t, i, c}) -= f * a.at({t, j, c});
        for (int64_t c = 0; c < k; ++c) b.at({t, i, c}) -= f * b.at({t, j, c});
      }
    }
    if (determinants) (*determinants)[t] = det;
  }
  return b;
}

Array dets_of(const Array& a) {
  Array d(Shape{a.shape[0]});
  eliminated(a, a, &d);
  return d;
}

Array same(const Arrays& in) { return in[0]; }

/// A constant in the shape of a. Added to a, it gives full rank and distinct singular values, even
/// if elements of a repeat.
Tensor base(const Tensor& a) {
  const int64_t m = a.size(-2), n = a.size(-1);
  Doubles v;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j)
      v.push_back((i == j ? 2.0 * static_cast<double>(i + 1) : 0) +
                  std::sin(3.0 * static_cast<double>(i) + 5.0 * static_cast<double>(j)));
  return tensor(v, {m, n}).to(a.dtype());
}

OpRow square_row(const char* name, std::function<Tensor(const Args&)> fn,
                 std::function<Array(const Arrays&)> naive) {
  return {name, {{2, 3, 3}}, std::move(fn), std::move(naive)};
}

TEST_CASE("op table: inverses, solutions, determinants") {
  auto solved = [](const Arrays& in) { return eliminated(regular_of(in[0]), in[1]); };
  auto identity = [](const Arrays& in) {
    Array one(in[0].shape);
    for_each_index(one.shape, [&](const Dims& i) { one.at(i) = i[1] == i[2]; });
    return eliminated(regular_of(in[0]), one);
  };
  auto triangle = [](const Arrays& in) {  // solves with the lower triangle
    Array a = regular_of(in[0]);
    for_each_index(a.shape, [&](const Dims& i) {
      if (i[2] > i[1]) a.at(i) = 0;
    });
    return eliminated(a, in[1]);
  };
  auto determinants = [](const Arrays& in) { return dets_of(regular_of(in[0])); };
  auto logs = [](const Arrays& in) {
    Array d = dets_of(regular_of(in[0]));
    for (double& v : d.v) v = std::log(std::abs(v));
    return d;
  };
  op("linalg::solve", {{2, 3, 3}, {2, 3, 2}}, [](const Args& x) {
    return linalg::solve(regular(x[0]), x[1]);
  }).equals(solved);
  op("linalg::solve_triangular", {{2, 3, 3}, {2, 3, 2}}, [](const Args& x) {
    return linalg::solve_triangular(regular(x[0]), x[1], {.upper = false});
  }).equals(triangle);
  op("linalg::solve_triangular, upper, from the right", {{2, 3, 3}, {2, 3, 2}}, [](const Args& x) {
    return t_of(
        linalg::solve_triangular(t_of(regular(x[0])), t_of(x[1]), {.upper = true, .left = false}));
  }).equals(triangle);
  test::run_rows({
      square_row(
          "linalg::inv", [](const Args& x) { return linalg::inv(regular(x[0])); }, identity),
      square_row(
          "linalg::det", [](const Args& x) { return linalg::det(regular(x[0])); }, determinants),
      square_row(
          "linalg::slogdet", [](const Args& x) { return linalg::slogdet(regular(x[0])).logabsdet; },
          logs),
  });
}

TEST_CASE("op table: factors, multiplied together again") {
  auto shapes = [](const char* name, Shape shape, std::function<Tensor(const Tensor&)> fn) {
    return OpRow{
        name, {shape}, [fn](const Args& x) { return fn(x[0] + base(x[0])) - base(x[0]); }, same};
  };
  auto by_qr = [](const Tensor& a) {
    linalg::Qr f = linalg::qr(a);
    return matmul(f.q, f.r);
  };
  auto by_svd = [](const Tensor& a) {
    linalg::Svd f = linalg::svd(a, false);
    return matmul(f.u * unsqueeze(f.s, -2), f.vh);
  };
  auto by_eigh = [](const Tensor& a) {
    linalg::Eigh f = linalg::eigh(a + t_of(a));
    Tensor y = matmul(f.eigenvectors * unsqueeze(f.eigenvalues, -2), t_of(f.eigenvectors));
    return y - t_of(a);
  };
  auto by_cholesky = [](const Tensor& a) {
    Tensor l = linalg::cholesky(definite(a)), u = linalg::cholesky(definite(a), true);
    return (matmul(l, t_of(l)) + matmul(t_of(u), u)) / 2 - definite(a) + a;
  };
  test::run_rows({
      shapes("qr", {2, 3, 3}, by_qr),
      shapes("qr, tall", {2, 4, 3}, by_qr),
      shapes("qr, wide", {2, 2, 4}, by_qr),
      shapes("svd", {2, 3, 3}, by_svd),
      shapes("svd, tall", {2, 4, 2}, by_svd),
      shapes("svd, wide", {2, 2, 4}, by_svd),
      shapes("eigh", {2, 3, 3}, by_eigh),
      shapes("cholesky", {2, 3, 3}, by_cholesky),
  });
}

}  // namespace
}  // namespace tern::ops_linalg
