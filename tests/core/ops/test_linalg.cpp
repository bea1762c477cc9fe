// linalg at the edges: batches, singular and empty matrices, gradients that do not exist, errors,
// threads; outer, trace, diag_embed and cdist in the op table.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "tern/core/base/precision.h"
#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/ops/linalg/linalg.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::test_linalg {
namespace {

using test::op, test::Args, test::Array, test::Arrays, test::Doubles, test::f64,
    test::for_each_index, test::kInf, test::kNan;

Tensor t_of(const Tensor& a) { return transpose(a, -2, -1); }
bool near(const Doubles& got, const Doubles& want, double tolerance) {
  return test::close(got, want, tolerance, tolerance);
}

const Tensor kTall = f64({1, 2, 3, 4, 5, 7}, {3, 2}), kWide = f64({1, 3, 5, 2, 4, 7}, {2, 3});
const Tensor kSquare = f64({2, 1, 0, 1, 3, -1, 0.5, -1, 4}, {3, 3});
const Tensor kDefinite = f64({4, 1, 0.5, 1, 3, -1, 0.5, -1, 2}, {3, 3});

TEST_CASE("linalg: a NaN in one matrix does not affect the inverses of others in the batch") {
  Tensor pair =
      stack({full({2, 2}, kNan, DType::f64), eye(2, 2, DType::f64) * 2.0, eye(2, 2, DType::f64)});
  fill_(pair[2][0][1], kNan);
  const Tensor y = linalg::inv(pair);
  CHECK(all(isnan(y[0])).item<bool>());
  CHECK(all(eq(y[1], eye(2, 2, DType::f64) * 0.5)).item<bool>());
  CHECK(all(isnan(y[2])).item<bool>());
}

TEST_CASE("linalg::solve_triangular: b is a matrix, also in the shape of a batch of vectors") {
  Rng rng(0);
  const Tensor a = tril(randn({3, 3, 3}, rng, DType::f64)) + 3 * eye(3, DType::f64);
  const Tensor b = randn({3, 3}, rng, DType::f64), all = expand(b, {3, 3, 3});
  const Tensor left = linalg::solve_triangular(a, b, {});
  const Tensor right = linalg::solve_triangular(a, b, {.left = false});
  REQUIRE(left.shape() == a.shape());
  REQUIRE(right.shape() == a.shape());
  CHECK(all_close(matmul(a, left), all));
  CHECK(all_close(matmul(right, a), all));
  CHECK(all_close(matmul(a[1], linalg::solve_triangular(a[1], b[0], {})), b[0]));
}

TEST_CASE("linalg: a ShapeOnlyScope, in which every element is 0, refuses no matrix") {
  const ShapeOnlyScope no_memory;
  const Tensor a = ones({4, 3, 3});
  CHECK(linalg::svd(a).s.shape() == Shape{4, 3});
  CHECK(linalg::eigh(a).eigenvectors.shape() == Shape{4, 3, 3});
  CHECK(linalg::lstsq(a, a).solution.shape() == Shape{4, 3, 3});
  CHECK(linalg::solve_triangular(a, a, {}).shape() == Shape{4, 3, 3});
  const Tensor x = ones({4, 3, 3}).set_requires_grad();
  backward(sum(linalg::svd(x, false).u) + sum(linalg::eigh(x).eigenvectors) +
           sum(linalg::slogdet(x).logabsdet));
  CHECK(x.grad().shape() == x.shape());
}

TEST_CASE("linalg: errors for singular matrices name the op and the matrix") {
  Tensor a = cat({unsqueeze(kSquare, 0), f64({1, 2, 3, 2, 4, 6, 1, 1, 1}, {1, 3, 3})});
  a = reshape(a, {1, 2, 3, 3});
  Tensor zero = zeros({3, 3}, DType::f64), b = ones({3}, DType::f64);
  CHECK_THROWS_WITH_AS(linalg::inv(zero), doctest::Contains("linalg::inv: the matrix is singular"),
                       Error);
  CHECK_THROWS_WITH_AS(linalg::solve(stack({kSquare, zero}), b),
                       doctest::Contains("linalg::solve: matrix (1,) of (2, 3, 3) is singular"),
                       Error);
  CHECK_THROWS_WITH_AS(linalg::cholesky(stack({kDefinite, -kDefinite})),
                       doctest::Contains("matrix (1,) of (2, 3, 3) is not positive definite: its "
                                         "leading minor of order 1"),
                       Error);
  CHECK_THROWS_WITH_AS(linalg::solve_triangular(stack({kSquare, zero}), b, {}),
                       doctest::Contains("matrix (1,) of (2, 3, 3) is singular: its diagonal"),
                       Error);
  linalg::Slogdet log = linalg::slogdet(stack({kSquare, zero}));
  CHECK(log.sign.to_vector<double>() == Doubles{1, 0});
  CHECK(log.logabsdet[1].item() == -kInf);
  Tensor leaf = zero.clone().set_requires_grad();
  CHECK_THROWS_WITH_AS(backward(linalg::slogdet(leaf).logabsdet),
                       doctest::Contains("linalg::slogdet: a singular matrix"), Error);
  // The gradient of det is the matrix of cofactors, also for singular matrices. A cofactor of a
  // 3 x 3 matrix is a product of two singular values, which LAPACK computes up to n eps |a|.
  const std::vector<std::pair<Tensor, Doubles>> rows = {
      {f64({1, 2, 3, 2, 4, 6, 1, 1, 1}, {3, 3}), {-2, 4, -2, 1, -2, 1, 0, 0, 0}},
      {f64({1, 2, 3, 2, 4, 6, 3, 6, 9}, {3, 3}), Doubles(9, 0)},
      {f64({2, 0, 0, 0, 3, 0, 0, 0, 0}, {3, 3}), {0, 0, 0, 0, 0, 0, 0, 0, 6}}};
  for (const auto& row : rows) {
    Tensor x = row.first.clone().set_requires_grad();
    const double error = 3 * std::numeric_limits<double>::epsilon() * sum(square(row.first)).item();
    CHECK(near(grad({linalg::det(x)}, {x})[0].to_vector<double>(), row.second, error));
  }
  leaf = f64({2, 0, 0, 0}, {2, 2}).set_requires_grad();
  CHECK_THROWS_WITH_AS(grad({linalg::det(leaf)}, {leaf}, {.create_graph = true}),
                       doctest::Contains("no second derivative"), Error);
}

TEST_CASE("linalg: gradients that do not exist are refused") {
  auto refuses = [](const Tensor& at, const std::function<Tensor(const Tensor&)>& fn,
                    const char* why) {
    Tensor x = at.clone().set_requires_grad();
    CHECK_THROWS_WITH_AS(backward(sum(fn(x))), doctest::Contains(why), Error);
  };
  using linalg::QrMode;
  const Tensor one = eye(3, 3, DType::f64);
  refuses(
      one, [](const Tensor& x) { return linalg::svd(x).u; }, "distinct singular values");
  refuses(
      one, [](const Tensor& x) { return linalg::eigh(x).eigenvectors; }, "distinct eigenvalues");
  refuses(
      kTall, [](const Tensor& x) { return linalg::svd(x).u; }, "full_matrices = false");
  refuses(
      kTall, [](const Tensor& x) { return linalg::qr(x, QrMode::complete).q; }, "reduced");
  refuses(
      kTall, [](const Tensor& x) { return linalg::qr(x, QrMode::r).r; }, "QrMode::r");
  refuses(
      kTall * 0, [](const Tensor& x) { return linalg::qr(x).q; }, "singular");
  Tensor x = one.clone().set_requires_grad();  // singular values and eigenvalues have gradients
  backward(sum(linalg::svd(x).s) + sum(linalg::eigvalsh(x)));
  CHECK(near(x.grad().to_vector<double>(), (one * 2).to_vector<double>(), 1e-14));
  const Tensor bad = f64({1, kInf, 0, kNan}, {2, 2});
  CHECK_THROWS_WITH_AS(linalg::svd(bad),
                       doctest::Contains("linalg::svd: the matrix has an element"), Error);
  const Tensor batch = stack({eye(2, 2, DType::f64), bad});
  const auto place =
      doctest::Contains(": matrix (1,) of (2, 2, 2) has an element that is infinite");
  CHECK_THROWS_WITH_AS(linalg::eigh(batch), place, Error);
  CHECK_THROWS_WITH_AS(linalg::lstsq(eye(2, 2, DType::f64), batch), place, Error);
  CHECK(all(isnan(linalg::inv(full({2, 2}, kNan, DType::f64)))).item<int>() == 1);
  CHECK_THROWS_WITH_AS(linalg::inv(kTall), doctest::Contains("square"), Error);
  CHECK_THROWS_WITH_AS(linalg::inv(arange(0, 3)), doctest::Contains("(..., m, n)"), Error);
  CHECK_THROWS_WITH_AS(linalg::inv(eye(2, 2, DType::i64)), doctest::Contains("f32 or f64"), Error);
  CHECK_THROWS_WITH_AS(linalg::solve(kSquare, kWide), doctest::Contains("needs as many rows"),
                       Error);
  CHECK_THROWS_WITH_AS(linalg::solve(kSquare, ones({3})), doctest::Contains("mixes"), Error);
  CHECK_THROWS_WITH_AS(linalg::matrix_norm(kTall, 3.0), doctest::Contains("order is 3"), Error);
}

TEST_CASE("linalg: broadcast batches, vectors, shapes of every mode") {
  Rng rng(3);
  Tensor a = randn({4, 1, 3, 3}, rng, DType::f64), b = randn({2, 3, 5}, rng, DType::f64);
  Tensor x = linalg::solve(a, b);
  CHECK(x.shape() == Shape{4, 2, 3, 5});
  CHECK(all_close(matmul(a, x), expand(b, {4, 2, 3, 5}), 1e-10, 1e-10));
  CHECK(linalg::solve(a, ones({3}, DType::f64)).shape() == Shape{4, 1, 3});
  CHECK(linalg::solve(kSquare, ones({3}, DType::f64)).shape() == Shape{3});
  Tensor v = randn({4, 1, 3}, rng, DType::f64);
  CHECK(all_close(squeeze(matmul(a, unsqueeze(linalg::solve(a, v), -1)), -1), v, 1e-10, 1e-10));
  for (const Shape& shape :
       {Shape{2, 5, 3}, Shape{2, 3, 5}, Shape{7, 7}, Shape{1, 1}, Shape{6, 1}}) {
    CAPTURE(to_string(shape));
    Tensor m = randn(shape, rng, DType::f64);
    const int64_t rows = m.size(-2), columns = m.size(-1), k = std::min(rows, columns);
    auto orthogonal = [](const Tensor& q) {
      return all_close(matmul(t_of(q), q), eye(q.size(-1), q.size(-1), DType::f64), 0, 1e-13);
    };
    for (linalg::QrMode mode : {linalg::QrMode::reduced, linalg::QrMode::complete}) {
      linalg::Qr f = linalg::qr(m, mode);
      const int64_t width = mode == linalg::QrMode::complete ? rows : k;
      CHECK(f.q.size(-1) == width);
      CHECK(f.r.size(-2) == width);
      CHECK(orthogonal(f.q));
      CHECK(all_close(matmul(f.q, f.r), m, 1e-12, 1e-13));
      CHECK(all_close(f.r, triu(f.r), 0, 0));
    }
    CHECK(all_close(abs(linalg::qr(m, linalg::QrMode::r).r), abs(linalg::qr(m).r), 1e-12, 1e-13));
    linalg::Svd d = linalg::svd(m);
    CHECK(d.u.size(-1) == rows);
    CHECK(d.vh.size(-2) == columns);
    CHECK((orthogonal(d.u) && orthogonal(t_of(d.vh))));
    Tensor again = matmul(narrow(d.u, -1, 0, k) * unsqueeze(d.s, -2), narrow(d.vh, -2, 0, k));
    CHECK(all_close(again, m, 1e-12, 1e-13));
    CHECK(all_close(linalg::svdvals(m), d.s, 1e-12, 1e-13));
    linalg::Lstsq l = linalg::lstsq(m, m);
    CHECK(all_close(matmul(m, l.solution), m, 1e-11, 1e-11));
    CHECK(l.rank.numel() == numel(Shape(shape.begin(), shape.end() - 2)));
    CHECK(min(l.rank).item<int64_t>() == k);
  }
  linalg::Lstsq low = linalg::lstsq(f64({1, 2, 3, 2, 4, 6, 1, 1, 1}, {3, 3}), f64({1, 2, 4}, {3}));
  CHECK(near(low.solution.to_vector<double>(),
             {4.833333333333335, 1.3333333333333324, -2.1666666666666674}, 1e-13));
  CHECK(low.rank.item<int64_t>() == 2);
  CHECK(low.residuals.numel() == 0);
  CHECK(linalg::lstsq(kTall, f64({1, 2, 4}, {3, 1})).residuals.item() == doctest::Approx(1 / 14.0));
  CHECK(linalg::matrix_norm(ones({2, 3, 4}), 1.0, {0, 2, true}).shape() == Shape{1, 3, 1});
  CHECK(linalg::matrix_norm(ones({2, 3, 4}), 1.0, {0, 2}).to_vector<double>() == Doubles{2, 2, 2});
  CHECK(linalg::eigvalsh(f64({2, 9, 1, 2}, {2, 2}), linalg::Triangle::lower).to_vector<double>() ==
        Doubles{1, 3});
  CHECK(
      near(linalg::eigvalsh(f64({2, 9, 1, 2}, {2, 2}), linalg::Triangle::upper).to_vector<double>(),
           {-7, 11}, 1e-14));
}

TEST_CASE("linalg: empty matrices and batches") {
  for (DType type : {DType::f32, DType::f64}) {
    Tensor none = zeros({0, 3, 3}, type), tiny = zeros({2, 0, 0}, type),
           flat = zeros({2, 0, 3}, type);
    CHECK(linalg::inv(none).shape() == Shape{0, 3, 3});
    CHECK(linalg::inv(tiny).shape() == Shape{2, 0, 0});
    CHECK(linalg::det(tiny).to_vector<double>() == Doubles{1, 1});
    CHECK(linalg::slogdet(tiny).logabsdet.to_vector<double>() == Doubles{0, 0});
    CHECK(linalg::solve(tiny, zeros({2, 0, 4}, type)).shape() == Shape{2, 0, 4});
    CHECK(linalg::solve(none, zeros({3, 0}, type)).shape() == Shape{0, 3, 0});
    CHECK(linalg::cholesky(none).shape() == Shape{0, 3, 3});
    CHECK(linalg::cholesky(tiny).shape() == Shape{2, 0, 0});
    CHECK(linalg::qr(flat).r.shape() == Shape{2, 0, 3});
    CHECK(linalg::qr(t_of(flat), linalg::QrMode::complete).q.to_vector<double>() ==
          expand(eye(3, 3, type), {2, 3, 3}).to_vector<double>());
    CHECK(linalg::svd(flat).vh.to_vector<double>() ==
          expand(eye(3, 3, type), {2, 3, 3}).to_vector<double>());
    CHECK(linalg::svdvals(none).shape() == Shape{0, 3});
    CHECK(linalg::eigh(tiny).eigenvalues.shape() == Shape{2, 0});
    CHECK(linalg::lstsq(flat, zeros({2, 0, 1}, type)).solution.to_vector<double>() ==
          Doubles(6, 0));
    CHECK(linalg::lstsq(t_of(flat), zeros({2, 3, 1}, type)).solution.shape() == Shape{2, 0, 1});
    CHECK(linalg::matrix_norm(none).shape() == Shape{0});
    // The largest of no sums and of no singular values is 0; there is no smallest.
    for (double order : {1.0, 2.0, kInf}) {
      CAPTURE(order);
      CHECK(linalg::matrix_norm(tiny, order).to_vector<double>() == Doubles{0, 0});
      CHECK(linalg::matrix_norm(tiny, order, {.keepdim = true}).shape() == Shape{2, 1, 1});
      CHECK(linalg::matrix_norm(none, order).shape() == Shape{0});
      CHECK_THROWS_WITH_AS(linalg::matrix_norm(tiny, -order),
                           doctest::Contains("linalg::matrix_norm: order -"), Error);
    }
    // A batch without matrices has none of low rank, so there are residuals, of no matrix.
    linalg::Lstsq of_none = linalg::lstsq(zeros({0, 4, 3}, type), zeros({0, 4, 2}, type));
    CHECK(of_none.residuals.shape() == Shape{0, 2});
    CHECK(cdist(zeros({0, 2}, type), zeros({3, 2}, type)).shape() == Shape{0, 3});
    CHECK(cdist(zeros({1, 0}, type), zeros({2, 0}, type)).to_vector<double>() == Doubles{0, 0});
  }
}

TEST_CASE("cdist: the gradient of close points keeps its digits far from the origin") {
  Rng rng(3);
  for (const double offset : {0., 1e4, -3e5}) {
    // Exact in f32, and so are their differences.
    const Tensor near = round(randn({5, 3}, rng) * 64) / 16,
                 other = round(randn({7, 3}, rng) * 64) / 16;
    auto gradients = [&](DType type) {
      const Tensor a = (near.to(type) + offset).set_requires_grad();
      const Tensor b = (other.to(type) + offset).set_requires_grad();
      backward(sum(cdist(a, b)));
      return std::pair(a.grad().to(DType::f64), b.grad().to(DType::f64));
    };
    const auto [a, b] = gradients(DType::f32);
    const auto [exact_a, exact_b] = gradients(DType::f64);
    CHECK(max(abs(a - exact_a)).item<double>() < 1e-5);
    CHECK(max(abs(b - exact_b)).item<double>() < 1e-5);
  }
}

TEST_CASE("op table: outer, trace, diag_embed, cdist") {
  auto points = [](double p) {
    return [p](const Arrays& in) {
      Array y({in[0].shape[0], in[1].shape[0]});
      for_each_index(y.shape, [&](const Dims& i) {
        double s = 0;
        for (int64_t k = 0; k < in[0].shape[1]; ++k)
          s += std::pow(std::abs(in[0].at({i[0], k}) - in[1].at({i[1], k}) - 5), p);
        y.at(i) = std::pow(s, 1 / p);
      });
      return y;
    };
  };
  auto embedded = [](const Arrays& in) {  // (2, 3) -> (4, 2, 4), offset -1 of axes 0 and 2
    Array y({4, in[0].shape[0], 4});
    for_each_index(in[0].shape, [&](const Dims& i) { y.at({i[1] + 1, i[0], i[1]}) = in[0].at(i); });
    return y;
  };
  op("outer", {{3}, {4}}, [](const Args& x) {
    return outer(x[0], x[1]);
  }).equals([](const Arrays& in) {
    Array y({in[0].shape[0], in[1].shape[0]});
    for_each_index(y.shape, [&](const Dims& i) { y.at(i) = in[0][i[0]] * in[1][i[1]]; });
    return y;
  });
  op("trace", {{3, 4}}, [](const Args& x) { return trace(x[0]); }).equals([](const Arrays& in) {
    Array y{Shape{}};
    for (int64_t i = 0; i < in[0].shape[0]; ++i) y[0] += in[0].at({i, i});
    return y;
  });
  op("diag_embed", {{2, 3}}, [](const Args& x) {
    return diag_embed(x[0], -1, 0, 2);
  }).equals(embedded);
  op("cdist", {{3, 4}, {2, 4}}, [](const Args& x) {
    return cdist(x[0], x[1] + 5);
  }).equals(points(2));
  op("cdist, many points", {{2, 3}, {35, 3}}, [](const Args& x) {
    return cdist(x[0], x[1] + 5);
  }).equals(points(2));
  // The loops for a few points, and for points side by side whose sums have several parts.
  for (const int64_t count : {2, 5})
    op("cdist, many coordinates", {{count, 130}, {3, 130}},
       [](const Args& x) { return cdist(x[0], x[1] + 5, 1); })
        .sums_of(130)
        .equals(points(1));
  op("cdist 3", {{3, 4}, {2, 4}}, [](const Args& x) {
    return cdist(x[0], x[1] + 5, 3);
  }).equals(points(3));
  CHECK(trace(reshape(arange(0, 6), {2, 3})).item<int64_t>() == 4);
  CHECK(diag_embed(arange(1, 3), 1).to_vector<int>() ==
        std::vector<int>{0, 1, 0, 0, 0, 2, 0, 0, 0});
  CHECK_THROWS_WITH_AS(outer(ones({2, 2}), ones({2})), doctest::Contains("outer: needs vectors"),
                       Error);
  CHECK_THROWS_WITH_AS(cdist(ones({2, 2}), ones({2, 3})), doctest::Contains("cdist: needs points"),
                       Error);
}

TEST_CASE("linalg: gradients have full precision when matmul is in bf16") {
  Rng rng(8);
  const Tensor a = randn({5, 5}, rng) + 4 * eye(5), b = randn({5, 3}, rng);
  auto gradients = [&] {
    std::vector<Doubles> all;
    for (const auto& fn : std::vector<std::function<Tensor(const Tensor&)>>{
             [&](const Tensor& x) { return linalg::solve(x, b); },
             [](const Tensor& x) { return linalg::inv(x); },
             [](const Tensor& x) { return linalg::qr(x).r; },
             [](const Tensor& x) { return linalg::svd(x).u; },
             [&](const Tensor& x) { return linalg::lstsq(x, b).solution; },
             [&](const Tensor& x) { return cdist(x, a + 100); }}) {
      Tensor x = a.clone().set_requires_grad();
      all.push_back(grad({sum(fn(x))}, {x})[0].to_vector<double>());
    }
    return all;
  };
  const std::vector<Doubles> want = gradients();
  MatmulPrecisionScope coarse(MatmulPrecision::bf16);
  CHECK(gradients() == want);
}

TEST_CASE("linalg: eigh takes matrices whose working memory has a size that no float is") {
  constexpr int64_t kSize = 2895;  // the smallest such
  const Tensor values = linalg::eigh(eye(kSize)).eigenvalues;
  CHECK(min(values).item() == 1);
  CHECK(max(values).item() == 1);
}

TEST_CASE("linalg: same bits on any number of threads") {
  Rng rng(9);
  Tensor a = randn({6, 90, 90}, rng), big = randn({300, 300}, rng, DType::f64);
  test::check_threads({3}, [&] {
    Doubles out;
    for (const Tensor& m : {a, big}) {
      Tensor square = matmul(m, t_of(m)) + eye(m.size(-1), m.size(-1), m.dtype());
      for (const Tensor& y :
           {linalg::inv(m), linalg::cholesky(square), linalg::qr(m).q, linalg::svd(m).u,
            linalg::eigh(square).eigenvectors, linalg::lstsq(m, m).solution, cdist(m, m)})
        for (double v : y.to_vector<double>()) out.push_back(v);
    }
    return out;
  });
}

}  // namespace
}  // namespace tern::test_linalg
