// Reductions over any axes: the op table, integers, empty tensors, NaN, PyTorch's gradients at
// ties, and the accuracy of long sums.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_reductions {
namespace {

using test::Array, test::Arrays, test::for_each_index, test::kInf, test::kNan, test::OpRow;
using Inputs = std::vector<Tensor>;

// A naive reduction over `axes` (all if empty): `of` maps the numbers of each group to its result.
Array reduced(const Array& x, Dims axes, const std::function<double(std::vector<double>)>& of,
              bool keepdim = false) {
  axes = normalize_axes("naive", axes, x.shape.size());
  Shape kept = x.shape, out;
  for (int a = 0; a < x.shape.size(); ++a) {
    if (axes.contains(a)) kept[a] = 1;
    if (!axes.contains(a) || keepdim) out.push_back(kept[a]);
  }
  std::vector<std::vector<double>> groups(static_cast<size_t>(numel(kept)));
  for_each_index(x.shape, [&](const Dims& index) {
    int64_t at = 0;
    for (int a = 0; a < index.size(); ++a) at = at * kept[a] + (kept[a] == 1 ? 0 : index[a]);
    groups[static_cast<size_t>(at)].push_back(x.at(index));
  });
  Array y(out);
  for (int64_t i = 0; i < y.numel(); ++i) y[i] = of(groups[static_cast<size_t>(i)]);
  return y;
}

double sum_of(const std::vector<double>& v) {
  double s = 0;
  for (double x : v) s += x;
  return s;
}

double mean_of(const std::vector<double>& v) { return sum_of(v) / static_cast<double>(v.size()); }

double var_of(const std::vector<double>& v, double correction) {
  double m = mean_of(v), s = 0;
  for (double x : v) s += (x - m) * (x - m);
  return s / std::max(static_cast<double>(v.size()) - correction, 0.0);
}

double norm_of(const std::vector<double>& v, double p) {
  double s = 0;
  for (double x : v) s = p == kInf ? std::max(s, std::abs(x)) : s + std::pow(std::abs(x), p);
  return p == kInf ? s : std::pow(s, 1 / p);
}

double logsumexp_of(const std::vector<double>& v) {
  double s = 0;
  for (double x : v) s += std::exp(x);
  return std::log(s);
}

double best_of(const std::vector<double>& v, double sign) {
  double best = -kInf;
  for (double x : v) best = std::max(best, sign * x);
  return sign * best;
}

double prod_of(const std::vector<double>& v) {
  double p = 1;
  for (double x : v) p *= x;
  return p;
}

OpRow row(std::string name, const Shape& shape, const Dims& axes, bool keepdim,
          const std::function<double(std::vector<double>)>& of,
          const std::function<Tensor(const Tensor&, const Dims&, bool)>& fn) {
  return {.name = std::move(name),
          .shapes = {shape},
          .fn = [=](const Inputs& x) { return fn(x[0], axes, keepdim); },
          .naive = [=](const Arrays& x) { return reduced(x[0], axes, of, keepdim); }};
}

Tensor plain_sum(const Tensor& x, const Dims& axes, bool keep) { return sum(x, axes, keep); }

TEST_CASE("op table: sums") {
  test::run_rows({
      row("sum, all", {3, 4}, {}, false, sum_of, plain_sum),
      row("sum, rows", {3, 4, 5}, {1, -1}, false, sum_of, plain_sum),
      row("sum, columns", {5, 4, 9}, {0}, true, sum_of, plain_sum),
      row("sum, outer and inner", {3, 4, 2, 5}, {0, 2}, false, sum_of, plain_sum),
      row("sum, of a scalar", {}, {}, false, sum_of, plain_sum),
      row("sum, axis of size 1", {3, 1, 2}, {1}, false, sum_of, plain_sum),
      row("mean", {3, 4, 5}, {0, 2}, false, mean_of,
          [](const Tensor& x, const Dims& axes, bool keep) { return mean(x, axes, keep); }),
      row("sum_to", {4, 3, 5}, {0, 1}, false, sum_of,
          [](const Tensor& x, const Dims&, bool) { return sum_to(x, {5}); }),
      row("sum_to, kept axes", {4, 3, 5}, {0, 2}, true, sum_of,
          [](const Tensor& x, const Dims&, bool) {
            return sum_to(x, {1, x.size(1), 1});
          }),
  });
}

TEST_CASE("op table: var and std") {
  for (int64_t correction : {0, 1}) {
    auto c = static_cast<double>(correction);
    auto var_row = row(
        "var", {4, 3, 5}, {0, 2}, false, [=](const std::vector<double>& v) { return var_of(v, c); },
        [=](const Tensor& x, const Dims& axes, bool keep) {
          return var(x, axes, correction, keep);
        });
    var_row.empty_shapes = {{4, 0, 5}};  // var of no elements is NaN: tested below
    test::run_rows({
        var_row,
        row(
            "std", {4, 6}, {1}, true,
            [=](const std::vector<double>& v) { return std::sqrt(var_of(v, c)); },
            [=](const Tensor& x, const Dims& axes, bool keep) {
              return std(x, axes, correction, keep);
            }),
    });
  }
}

// Six times 0.1 is not 0.6, so a rounded mean of equal numbers may differ from them.
TEST_CASE("std: equal elements give 0 and a zero gradient") {
  for (DType type : {DType::f32, DType::f64}) {
    Tensor x = full({2, 6}, 0.1, type).set_requires_grad();
    Tensor y = std(x, {1});
    CHECK(y.to_vector<double>() == std::vector<double>{0, 0});
    CHECK(max(abs(grad({sum(y)}, {x})[0])).item() == 0);
  }
}

TEST_CASE("op table: amax, amin, prod, logsumexp") {
  auto max_row = row(
      "amax", {4, 3, 5}, {1, 2}, false, [](const std::vector<double>& v) { return best_of(v, 1); },
      [](const Tensor& x, const Dims& axes, bool keep) { return amax(x, axes, keep); });
  auto min_row = row(
      "amin", {4, 9}, {0}, true, [](const std::vector<double>& v) { return best_of(v, -1); },
      [](const Tensor& x, const Dims& axes, bool keep) { return amin(x, axes, keep); });
  min_row.skip_expanded = true;  // jumps at equal elements
  min_row.skip_empty = true;     // an error, tested below
  auto lse = [](const Tensor& x, const Dims& axes, bool keep) { return logsumexp(x, axes, keep); };
  auto product = [](const Tensor& x, const Dims& axes, bool keep) { return prod(x, axes, keep); };
  test::run_rows({max_row, min_row, row("prod", {2, 5}, {1}, false, prod_of, product),
                  row("prod, two axes", {3, 2, 3}, {0, 2}, true, prod_of, product),
                  row("logsumexp", {4, 5}, {1}, false, logsumexp_of, lse),
                  row("logsumexp, two axes", {2, 3, 4}, {0, 2}, true, logsumexp_of, lse)});
}

TEST_CASE("op table: norm") {
  for (double p : {0.5, 1.0, 1.5, 2.0, 3.0, kInf}) {
    auto r = row(
        "norm", {3, 4, 2}, {0, 2}, false,
        [=](const std::vector<double>& v) { return norm_of(v, p); },
        [=](const Tensor& x, const Dims& axes, bool keep) { return norm(x, p, axes, keep); });
    if (std::isinf(p)) r.empty_shapes = {{3, 0, 2}};  // a maximum needs elements
    r.skip_expanded = std::isinf(p);                  // jumps at equal elements
    test::run_rows({r});
  }
}

TEST_CASE("op table: cumsum") {
  auto running = [](int axis) {
    return [axis](const Arrays& x) {
      Array y(x[0].shape);
      for_each_index(y.shape, [&](const Dims& index) {
        Dims before = index;
        if (--before[axis] >= 0)
          y.at(index) = y.at(before) + x[0].at(index);
        else
          y.at(index) = x[0].at(index);
      });
      return y;
    };
  };
  auto fn = [](int axis) { return [axis](const Inputs& x) { return cumsum(x[0], axis); }; };
  test::run_rows(
      {{.name = "cumsum, last", .shapes = {{3, 5}}, .fn = fn(-1), .naive = running(1)},
       {.name = "cumsum, first", .shapes = {{4, 3}}, .fn = fn(0), .naive = running(0)},
       {.name = "cumsum, middle", .shapes = {{2, 4, 3}}, .fn = fn(1), .naive = running(1)}});
}

TEST_CASE("sum and prod of integers are i64; max and min keep the type") {
  Tensor bytes = tensor({200, 100, 3, 0}, {2, 2}, DType::u8);
  CHECK(sum(bytes).dtype() == DType::i64);
  CHECK(sum(bytes).item<int64_t>() == 303);
  CHECK(prod(bytes, 0).to_vector<int64_t>() == std::vector<int64_t>{600, 0});
  CHECK(cumsum(bytes, 0).to_vector<int64_t>() == std::vector<int64_t>{200, 100, 203, 100});
  CHECK(amax(bytes, 1).dtype() == DType::u8);
  CHECK(amax(bytes, 1).to_vector<int>() == std::vector<int>{200, 3});
  Tensor longs = tensor({-5, 7, 9, -11}, {2, 2}, DType::i64);
  CHECK(min(longs).item<int64_t>() == -11);
  CHECK(amax(longs, 0).to_vector<int64_t>() == std::vector<int64_t>{9, 7});
  CHECK_THROWS_WITH_AS(mean(longs), doctest::Contains("convert with .to(DType::f32)"), Error);
}

TEST_CASE("logsumexp: a line of only -inf has a gradient of 0, like an empty sum") {
  const Tensor x = tensor({-kInf, -kInf, -kInf, 1, -kInf, 1}, {2, 3}).set_requires_grad();
  const std::vector<double> dx = grad({sum(logsumexp(x, 1))}, {x})[0].to_vector<double>();
  CHECK(dx == std::vector<double>{0, 0, 0, 0.5, 0, 0.5});
}

TEST_CASE("reductions of empty tensors") {
  Tensor x = zeros({0, 3});
  CHECK(sum(x).item() == 0);
  CHECK(sum(x, 0).to_vector<double>() == std::vector<double>{0, 0, 0});
  CHECK(sum(x, 1).shape() == Shape{0});
  CHECK(prod(x, 0).to_vector<double>() == std::vector<double>{1, 1, 1});
  CHECK(std::isnan(mean(x).item()));
  CHECK(std::isnan(var(x).item()));
  CHECK(norm(x).item() == 0);
  CHECK(logsumexp(x, 0).to_vector<double>() == std::vector<double>(3, -kInf));
  CHECK(any(x).item() == 0);
  CHECK(all(x).item() == 1);
  CHECK(amax(x, 1).shape() == Shape{0});
  CHECK_THROWS_WITH_AS(amax(x, 0), "amax: no elements to choose from: axes (0,) of shape (0, 3)",
                       Error);
  CHECK_THROWS_AS(min(x), Error);
}

TEST_CASE("NaN spreads") {
  for (int64_t n : {3, 40, 100000})
    for (int64_t at : {int64_t{0}, n / 2, n - 1}) {
      std::vector<double> v(static_cast<size_t>(n), 1.0);
      v[static_cast<size_t>(at)] = kNan;
      Tensor x = tensor(v, Shape{n});
      CHECK(std::isnan(max(x).item()));
      CHECK(std::isnan(min(x).item()));
      CHECK(std::isnan(sum(x).item()));
      CHECK(std::isnan(norm(x, kInf).item()));
      CHECK(std::isnan(amax(expand(reshape(x, {n, 1}), {n, 9}), 0)[8].item()));
      CHECK(any(x).item() == 1);
      CHECK(all(x).item() == 1);
    }
}

TEST_CASE("any and all") {
  Tensor x = tensor({0, 0, 2, 0, -1, 3}, {2, 3});
  CHECK(any(x, 0).to_vector<int>() == std::vector<int>{0, 1, 1});
  CHECK(all(x, 0).to_vector<int>() == std::vector<int>{0, 0, 1});
  CHECK(any(x, 1, true).shape() == Shape{2, 1});
  CHECK(all(x, 1).to_vector<int>() == std::vector<int>{0, 0});
  CHECK(any(x).dtype() == DType::u8);
}

std::vector<double> gradient_of(const Tensor& x, const TensorFunction& fn) {
  x.set_requires_grad();
  return grad({sum(fn({x}))}, {x})[0].to_vector<double>();
}

TEST_CASE("gradients at ties and zeros are PyTorch's") {
  auto two_rows = [](std::initializer_list<double> v) { return tensor(v, {2, 3}, DType::f64); };
  CHECK(gradient_of(two_rows({1, 1, 0, 0, 0, 0}), [](const Inputs& x) { return amax(x[0], 1); }) ==
        std::vector<double>{0.5, 0.5, 0, 1 / 3.0, 1 / 3.0, 1 / 3.0});
  CHECK(gradient_of(two_rows({2, 0, 3, 0, 0, 5}), [](const Inputs& x) { return prod(x[0], 1); }) ==
        std::vector<double>{0, 6, 0, 0, 0, 0});
  auto norm_gradient = [&](double p) {
    return gradient_of(two_rows({3, -4, 0, 0, 0, 0}),
                       [p](const Inputs& x) { return norm(x[0], p, 1); });
  };
  CHECK(norm_gradient(0) == std::vector<double>(6, 0));
  CHECK(norm_gradient(1) == std::vector<double>{1, -1, 0, 0, 0, 0});
  CHECK(norm_gradient(kInf) == std::vector<double>{0, -1, 0, 0, 0, 0});
  std::vector<double> second{0.6, -0.8, 0, 0, 0, 0};
  std::vector<double> third{0.4448513517305356, -0.7908468475209521, 0, 0, 0, 0};
  for (size_t i = 0; i < 6; ++i) {
    CHECK(norm_gradient(2)[i] == doctest::Approx(second[i]));
    CHECK(norm_gradient(3)[i] == doctest::Approx(third[i]));
  }
  CHECK(gradient_of(tensor({2, 2}, {2}), [](const Inputs& x) { return std(x[0]); }) ==
        std::vector<double>{0, 0});
  CHECK(gradient_of(tensor({-kInf, -kInf}, {2}), [](const Inputs& x) {
          return logsumexp(x[0], 0);
        }) == std::vector<double>{0, 0});
}

TEST_CASE("long sums of f32 are accurate, with the same bits on any number of threads") {
  Rng rng(3);
  Tensor x = uniform({300, 70, 23}, 0, 1, rng);
  auto run = [&] {
    NoGradGuard guard;
    std::vector<double> out;
    for (const Dims& axes : {Dims{}, Dims{0}, Dims{1}, Dims{2}, Dims{0, 1}, Dims{1, 2}, Dims{0, 2}})
      for (double v : sum(x, axes).to_vector<double>()) out.push_back(v);
    for (double v : sum(transpose(x, 0, 2), {1, 2}).to_vector<double>()) out.push_back(v);
    return out;
  };
  test::check_threads({2, 3, 5}, run);
  const std::vector<double> one = run();
  double want = sum_of(x.to_vector<double>());
  CHECK(std::abs(one[0] - want) <= 1e-7 * want);
  for (size_t i = 1; i < one.size(); ++i) REQUIRE(one[i] > 0);
}

// Sizes at the borders of the kernels' blocks.
TEST_CASE("sums over rows and columns of every size") {
  Rng rng(4);
  for (int64_t n : {1, 7, 15, 16, 17, 64, 513, 2000})
    for (int64_t m : {1, 7, 8, 9, 33, 511, 700}) {
      Tensor x = uniform({n, m}, -1, 1, rng, DType::f64);
      std::vector<double> v = x.to_vector<double>();
      std::vector<double> rows(static_cast<size_t>(n)), columns(static_cast<size_t>(m));
      for (int64_t i = 0; i < n * m; ++i) {
        rows[static_cast<size_t>(i / m)] += v[static_cast<size_t>(i)];
        columns[static_cast<size_t>(i % m)] += v[static_cast<size_t>(i)];
      }
      CHECK(all_close(sum(x, 1), tensor(rows, Shape{n}), 1e-12, 1e-12));
      CHECK(all_close(sum(x, 0), tensor(columns, Shape{m}), 1e-12, 1e-12));
      CHECK(amax(x, 0).to_vector<double>() ==
            amax(transpose(x, 0, 1).contiguous(), 1).to_vector<double>());
    }
}

TEST_CASE("reductions: errors name the op and the values") {
  Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(sum(x, 2), "sum: axis 2 is out of range for 2 axes", Error);
  CHECK_THROWS_WITH_AS(sum(x, {1, -1}), doctest::Contains("appears twice"), Error);
  CHECK_THROWS_WITH_AS(sum_to(x, {2, 2}), doctest::Contains("(2, 2)"), Error);
  CHECK_THROWS_WITH_AS(norm(tensor({1}, {1}, DType::i64)), doctest::Contains("floating"), Error);
}

}  // namespace
}  // namespace tern::ops_reductions
