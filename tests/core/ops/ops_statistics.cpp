// Median, quantile, cumprod, cummax, diff, unique, bincount, searchsorted, histogram and
// multinomial, against naive loops and PyTorch's numbers.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/statistics/statistics.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_statistics {
namespace {

using test::op, test::Args, test::Array, test::Arrays, test::Doubles, test::f64, test::i64,
    test::Ints, test::kInf, test::kNan, test::list, test::numbers, test::same;

bool close(const Doubles& got, const Doubles& want, double tolerance = 1e-14) {
  return test::close(got, want, 0, tolerance);
}

/// The gradient of the sum of fn(x).
Doubles gradient(const std::function<Tensor(const Tensor&)>& fn, const Tensor& at) {
  Tensor x = at.clone().set_requires_grad();
  return numbers(grad({sum(fn(x))}, {x})[0]);
}

/// Applies fn to each line of a matrix along an axis. Without `keep`, the axis is dropped.
std::function<Array(const Arrays&)> lines(int axis, bool keep, std::function<Doubles(Doubles)> fn) {
  return [=](const Arrays& in) {
    const Array& x = in[0];
    const int64_t n = x.shape[axis], others = x.shape[1 - axis];
    const auto size = static_cast<int64_t>(fn(Doubles(static_cast<size_t>(n))).size());
    Shape shape = x.shape;
    shape[axis] = size;
    Array y(shape);
    for (int64_t line = 0; line < others; ++line) {
      Doubles values;
      auto at = [&](int64_t i) { return axis == 0 ? Dims{i, line} : Dims{line, i}; };
      for (int64_t i = 0; i < n; ++i) values.push_back(x.at(at(i)));
      values = fn(values);
      for (int64_t i = 0; i < size; ++i) y.at(at(i)) = values[static_cast<size_t>(i)];
    }
    if (!keep) y.shape = Shape{others};
    return y;
  };
}

Doubles kth(Doubles v, size_t k) {
  std::sort(v.begin(), v.end());
  return {v[k]};
}

double quantile_of(Doubles v, double q) {
  std::sort(v.begin(), v.end());
  const double rank = q * static_cast<double>(v.size() - 1), below = std::floor(rank);
  const auto i = static_cast<size_t>(below);
  return v[i] + (rank - below) * (v[std::min(i + 1, v.size() - 1)] - v[i]);
}

TEST_CASE("op table: order statistics") {
  auto first_quantiles = [](const Arrays& in) {  // (3, 5) -> (2, 3)
    Array low = lines(1, true, [](const Doubles& v) { return Doubles{quantile_of(v, 0.3)}; })(in);
    Array high = lines(1, true, [](const Doubles& v) { return Doubles{quantile_of(v, 0.9)}; })(in);
    Array y({2, in[0].shape[0]});
    for (int64_t i = 0; i < in[0].shape[0]; ++i) y.at({0, i}) = low[i], y.at({1, i}) = high[i];
    return y;
  };
  op("median", {{3, 5}}, [](const Args& x) { return median(x[0], -1).values; })
      .no_expanded()
      .equals(lines(1, false, [](const Doubles& v) { return kth(v, 2); }));
  op("median, first axis, kept", {{4, 3}},
     [](const Args& x) { return median(x[0], 0, true).values; })
      .no_empty()
      .no_expanded()
      .equals(lines(0, true, [](const Doubles& v) { return kth(v, 1); }));
  op("median of all", {{3, 5}}, [](const Args& x) { return median(x[0]); })
      .no_empty()
      .no_expanded()
      .equals([](const Arrays& in) {
        Array y{Shape{}};
        y[0] = kth(in[0].v, (in[0].v.size() - 1) / 2)[0];
        return y;
      });
  op("kthvalue", {{3, 5}}, [](const Args& x) { return kthvalue(x[0], 4).values; })
      .no_expanded()
      .equals(lines(1, false, [](const Doubles& v) { return kth(v, 3); }));
  op("quantile", {{3, 5}},
     [](const Args& x) { return quantile(x[0], 0.3, {.axis = 1, .keepdim = true}); })
      .no_expanded()
      .equals(lines(1, true, [](const Doubles& v) { return Doubles{quantile_of(v, 0.3)}; }));
  op("quantiles", {{3, 5}},
     [](const Args& x) {
       return quantile(x[0], tensor({0.3, 0.9}, {2}, DType::f64).to(x[0].dtype()), {.axis = -1});
     })
      .no_expanded()
      .equals(first_quantiles);
  op("quantile of all", {{3, 5}}, [](const Args& x) { return quantile(x[0], 0.7); })
      .no_empty()
      .no_expanded()
      .equals([](const Arrays& in) {
        Array y{Shape{}};
        y[0] = quantile_of(in[0].v, 0.7);
        return y;
      });
  op("var_mean", {{3, 5}}, [](const Args& x) {
    VarMean both = var_mean(x[0], 1);
    return both.var + both.mean;
  }).equals(lines(1, false, [](const Doubles& v) {
    double mean = 0, var = 0;
    for (double a : v) mean += a / 5;
    for (double a : v) var += (a - mean) * (a - mean) / 4;
    return Doubles{var + mean};
  }));
}

TEST_CASE("op table: running products and extremes") {
  auto running = [](double (*fn)(double, double)) {
    return [fn](Doubles v) {
      for (size_t i = 1; i < v.size(); ++i) v[i] = fn(v[i - 1], v[i]);
      return v;
    };
  };
  auto times = [](double a, double b) { return a * b; };
  auto most = [](double a, double b) { return std::max(a, b); };
  auto least = [](double a, double b) { return std::min(a, b); };
  op("cumprod", {{3, 5}}, [](const Args& x) {
    return cumprod(x[0], -1);
  }).equals(lines(1, true, running(times)));
  op("cumprod, first axis", {{5, 3}}, [](const Args& x) {
    return cumprod(x[0], 0);
  }).equals(lines(0, true, running(times)));
  op("cumprod with a zero", {{3, 5}}, [](const Args& x) {
    return cumprod(x[0] * tensor({1, 1, 0, 1, 1}, {5}, DType::f64).to(x[0].dtype()), 1);
  }).equals(lines(1, true, [=](Doubles v) {
    v[2] = 0;
    return running(times)(v);
  }));
  op("cummax", {{3, 5}}, [](const Args& x) { return cummax(x[0], 1).values; })
      .no_expanded()
      .equals(lines(1, true, running(most)));
  op("cummin, first axis", {{5, 3}}, [](const Args& x) { return cummin(x[0], 0).values; })
      .no_expanded()
      .equals(lines(0, true, running(least)));
  auto differences = [](const Doubles& v) {
    Doubles d;
    for (size_t i = 1; i < v.size(); ++i) d.push_back(v[i] - v[i - 1]);
    return d;
  };
  op("diff", {{3, 5}}, [](const Args& x) {
    return diff(x[0]);
  }).equals(lines(1, true, differences));
  op("diff, twice, first axis", {{5, 3}}, [](const Args& x) {
    return diff(x[0], 2, 0);
  }).equals(lines(0, true, [=](const Doubles& v) { return differences(differences(v)); }));
}

TEST_CASE("median, kthvalue: ties, NaN, integers, no axes, no elements") {
  auto all = [](const Tensor& x) { return median(x); };
  auto along = [](const Tensor& x) { return median(x, 0).values; };
  CHECK(gradient(all, f64({3, 1, 1, 2})) == Doubles{0, 0.5, 0.5, 0});
  CHECK(gradient(along, f64({3, 1, 1, 2})) == Doubles{0, 0, 1, 0});
  CHECK(gradient(all, f64({3, kNan, 2})) == Doubles{0, 1, 0});
  CHECK(gradient(along, f64({3, kNan, 2})) == Doubles{0, 1, 0});
  CHECK(std::isnan(median(f64({3, kNan, 2})).item()));
  CHECK(gradient([](const Tensor& x) { return median(x); }, f64({3, kNan, 2})) == Doubles{0, 1, 0});
  CHECK(std::isnan(median(zeros({0})).item()));
  CHECK(median(i64({9, 4, 7, 5})).item<int64_t>() == 5);
  CHECK(median(scalar(3), -1).indices.item<int64_t>() == 0);
  CHECK(list(median(tensor({5, 1, 4, 2, 6, 3}, {2, 3}), 1).indices) == Ints{2, 2});
  CHECK(kthvalue(f64({3, kNan, 2}), 3).indices.item<int64_t>() == 1);
  CHECK(kthvalue(tensor({5, 1, 4, 2, 6, 3}, {2, 3}), 1, 0, true).values.shape() == Shape{1, 3});
  CHECK(kthvalue(scalar(3), 1).values.shape() == Shape{});
  CHECK(median(zeros({0, 3}), 1).values.shape() == Shape{0});
  CHECK_THROWS_WITH_AS(median(zeros({0, 3}), 0), doctest::Contains("median: axis 0"), Error);
  CHECK_THROWS_WITH_AS(median(zeros({0}, DType::i64)), doctest::Contains("no elements"), Error);
  CHECK_THROWS_WITH_AS(kthvalue(zeros({3}), 4), doctest::Contains("k is 4, outside [1, 3]"), Error);
  CHECK_THROWS_WITH_AS(kthvalue(zeros({3}), 0), doctest::Contains("k is 0"), Error);
}

TEST_CASE("kthvalue, median and topk choose what a whole sort does") {
  Rng rng(5);
  for (int64_t n : {1, 2, 7, 40, 300}) {
    Tensor x = round(randn({3, n}, rng) * 5);  // with ties
    if (n > 2) x[1][n / 2] = kNan;
    const ValuesIndices up = sort(x, 1), down = sort(x, 1, true);
    for (int64_t k = 1; k <= n; ++k) {
      const ValuesIndices one = kthvalue(x, k, 1, true);
      CHECK(same(one.indices, narrow(up.indices, 1, k - 1, 1)));
      CHECK(same(one.values[0], narrow(up.values, 1, k - 1, 1)[0]));
      CHECK(same(topk(x, k, 1).indices, narrow(down.indices, 1, 0, k)));
      CHECK(same(topk(x, k, 1, false).indices, narrow(up.indices, 1, 0, k)));
    }
    const int64_t middle = (n - 1) / 2;
    CHECK(median(x, 1).indices[0].item() == up.indices[0][middle].item());
  }
}

TEST_CASE("quantile: PyTorch's numbers, interpolations, shapes, errors") {
  struct Row {
    QuantileInterpolation how;
    Doubles y, dx;
  };
  const Tensor x = f64({3, 1, 4, 2}), q = f64({0.1, 0.5, 0.6});
  for (const Row& r : std::vector<Row>{
           {QuantileInterpolation::linear, {1.3, 2.5, 2.8}, {1.3, 0.7, 0, 1}},
           {QuantileInterpolation::lower, {1, 2, 2}, {0, 1, 0, 2}},
           {QuantileInterpolation::higher, {2, 3, 3}, {2, 0, 0, 1}},
           {QuantileInterpolation::midpoint, {1.5, 2.5, 2.5}, {1, 0.5, 0, 1.5}},
           {QuantileInterpolation::nearest, {1, 3, 3}, {2, 1, 0, 0}},
       }) {
    auto fn = [&](const Tensor& t) { return quantile(t, q, {.interpolation = r.how}); };
    CHECK(close(numbers(fn(x)), r.y));
    CHECK(close(gradient(fn, x), r.dx));
  }
  auto half = [](const Tensor& t) { return quantile(t, 0.5); };
  CHECK(std::isnan(half(f64({3, kNan, 1})).item()));
  CHECK(gradient(half, f64({3, kNan, 1})) == Doubles{0, 1, 0});
  CHECK(close(gradient([&](const Tensor& t) { return quantile(x, t); }, f64({0.1, 0.6})), {3, 3}));
  const Tensor deep = reshape(arange(0, 24, 1, DType::f64), {2, 3, 4});
  CHECK(quantile(deep, q, {.axis = 1}).shape() == Shape{3, 2, 4});
  CHECK(quantile(deep, q, {.axis = 1, .keepdim = true}).shape() == Shape{3, 2, 1, 4});
  CHECK(quantile(deep, 0.5, {.keepdim = true}).shape() == Shape{1, 1, 1});
  CHECK(numbers(quantile(deep, 0.5, {.axis = 1})[1]) == Doubles{16, 17, 18, 19});
  CHECK(quantile(scalar(3), 0.2, {.axis = 0}).shape() == Shape{});
  CHECK(quantile(x, zeros({0}, DType::f64)).shape() == Shape{0});
  CHECK(quantile(zeros({0, 3}), 0.5, {.axis = 1}).shape() == Shape{0});
  CHECK_THROWS_WITH_AS(quantile(zeros({0}), 0.5), doctest::Contains("no elements"), Error);
  CHECK_THROWS_WITH_AS(quantile(x, 1.5), doctest::Contains("1.5, outside [0, 1]"), Error);
  CHECK_THROWS_WITH_AS(quantile(x, ones({1})), doctest::Contains("one type"), Error);
}

TEST_CASE("prod and cumprod of f32: roundings in one direction do not add up") {
  const int64_t n = 1000000;
  const Tensor x = full({n, 2}, 1.000001);  // 1 + 2^-20
  std::vector<double> want = {1};
  for (int64_t i = 0; i < n; ++i) want.push_back(want.back() * (1 + 0x1p-20));
  auto near = [](double a, double b) { return std::abs(a - b) <= 0x1p-23 * b; };
  const Tensor running = cumprod(x, 0), column = select(running, 1, 1);
  for (int64_t i : {int64_t{0}, n / 3, n - 1})
    CHECK(near(select(column, 0, i).item(), want[static_cast<size_t>(i + 1)]));
  CHECK(near(select(cumprod(select(x, 1, 0).contiguous(), 0), 0, n - 1).item(), want.back()));
  CHECK(near(prod(x, {0}).to_vector<double>()[1], want.back()));
  CHECK(near(prod(x).item(), want.back() * want.back()));
  // The gradient of the whole product by its first factor, even if that is 0, is the product of the
  // others.
  for (double first : {1.0, 0.0}) {
    CAPTURE(first);
    Tensor line = full({n}, 1.000001);
    copy_(select(line, 0, 0), scalar(first));
    line.set_requires_grad();
    for (const Tensor& y : {prod(line), select(cumprod(line, 0), 0, n - 1)})
      CHECK(near(select(grad({y}, {line})[0], 0, 0).item(), want[static_cast<size_t>(n - 1)]));
  }
}

TEST_CASE("cummax, cumprod: NaN, ties, integers, zeros") {
  ValuesIndices top = cummax(f64({1, 3, 3, kNan, 2, kNan}), 0);
  CHECK(close(numbers(top.values), {1, 3, 3, kNan, kNan, kNan}));
  CHECK(list(top.indices) == Ints{0, 1, 2, 3, 3, 5});
  CHECK(list(cummin(f64({3, 1, 1, 2}), 0).indices) == Ints{0, 1, 2, 2});
  CHECK(list(cummax(i64({INT64_MIN, -1, -5}), 0).values) == Ints{INT64_MIN, -1, -1});
  CHECK(cummin(scalar(2), 0).indices.item<int64_t>() == 0);
  CHECK(cummax(zeros({2, 0}), 1).indices.shape() == Shape{2, 0});
  auto product = [](const Tensor& x) { return cumprod(x, 0); };
  CHECK(gradient(product, f64({2, 0, 3, 0, 4})) == Doubles{1, 8, 0, 0, 0});
  CHECK(list(cumprod(tensor({100, 200, 3}, {3}, DType::u8), 0)) == Ints{100, 20000, 60000});
  CHECK(cumprod(scalar(2), -1).item() == 2);
  Rng rng(4);
  Tensor x = randn({3, 700, 130}, rng);
  test::check_threads(
      {3}, [&] { return numbers(cumprod(x, 1) + cummax(x, 1).values + cummin(x, 2).values); });
}

TEST_CASE("diff: integers, more differences than elements, errors") {
  CHECK(list(diff(i64({1, 4, 9, 16}))) == Ints{3, 5, 7});
  CHECK(list(diff(i64({1, 4, 9, 16}), 0)) == Ints{1, 4, 9, 16});
  CHECK(list(diff(tensor({3, 1}, {2}, DType::u8))) == Ints{254});
  CHECK(diff(zeros({2, 3}), 1000, 1).shape() == Shape{2, 0});
  CHECK(diff(zeros({0, 3}), 1, 0).shape() == Shape{0, 3});
  CHECK_THROWS_WITH_AS(diff(zeros({3}), -1), doctest::Contains("diff: takes"), Error);
  CHECK_THROWS_WITH_AS(diff(scalar(1)), doctest::Contains("diff: needs"), Error);
}

TEST_CASE("unique: order, inverse, counts, slices, NaN, no elements") {
  Tensor x = f64({3, 1, kNan, 1, kNan});
  Unique u = unique(x, {.return_inverse = true, .return_counts = true});
  CHECK(close(numbers(u.values), {1, 3, kNan, kNan}));
  CHECK(list(u.inverse) == Ints{1, 0, 2, 0, 3});
  CHECK(list(u.counts) == Ints{2, 1, 1, 1});
  u = unique(x, {.sorted = false, .return_inverse = true, .return_counts = true});
  CHECK(close(numbers(u.values), {3, 1, kNan, kNan}));
  CHECK(list(u.inverse) == Ints{0, 1, 2, 1, 3});
  CHECK(list(u.counts) == Ints{1, 2, 1, 1});
  CHECK_FALSE(unique(x).inverse.defined());
  Tensor rows = tensor(Ints{3, 1, 0, 2, 3, 1}, {3, 2});
  u = unique(rows, {.return_inverse = true, .return_counts = true, .axis = 0});
  CHECK(list(u.values) == Ints{0, 2, 3, 1});
  CHECK(list(u.inverse) == Ints{1, 0, 1});
  CHECK(list(u.counts) == Ints{1, 2});
  u = unique(transpose(rows, 0, 1), {.return_counts = true, .axis = -1});
  CHECK(u.values.shape() == Shape{2, 2});
  CHECK(list(u.values) == Ints{0, 3, 2, 1});
  u = unique(rows, {.return_inverse = true});
  CHECK(list(u.values) == Ints{0, 1, 2, 3});
  CHECK(u.inverse.shape() == Shape{3, 2});
  CHECK(unique(zeros({0, 3})).values.shape() == Shape{0});
  CHECK(unique(zeros({0, 3}), {.axis = 0}).values.shape() == Shape{0, 3});
  CHECK(unique(tensor({2, 1, 2}, {3}, DType::u8)).values.dtype() == DType::u8);
  CHECK(unique(scalar(2), {.return_inverse = true}).inverse.shape() == Shape{});
  Tensor leaf = f64({1, 2}).set_requires_grad();
  CHECK_THROWS_WITH_AS(backward(sum(unique(leaf).values)),
                       doctest::Contains("unique: has no gradient"), Error);
}

TEST_CASE("bincount, searchsorted, histogram: PyTorch's numbers") {
  CHECK(list(bincount(i64({1, 1, 3}))) == Ints{0, 2, 0, 1});
  CHECK(list(bincount(tensor({1, 1, 3}, {3}, DType::u8), {}, 6)) == Ints{0, 2, 0, 1, 0, 0});
  CHECK(list(bincount(zeros({0}, DType::i64), {}, 3)) == Ints{0, 0, 0});
  CHECK(numbers(bincount(i64({1, 1, 3}), tensor({0.5, 1, 2}, {3}))) == Doubles{0, 1.5, 0, 2});
  CHECK(bincount(i64({1}), i64({4})).dtype() == DType::f64);
  CHECK(gradient(
            [](const Tensor& w) {
              return square(bincount(i64({1, 1, 3}), w));
            },
            f64({0.5, 1, 2})) == Doubles{3, 3, 4});
  CHECK_THROWS_WITH_AS(bincount(i64({1, -1})), doctest::Contains("must not be negative, got -1"),
                       Error);
  CHECK_THROWS_WITH_AS(bincount(f64({1})), doctest::Contains("needs integers"), Error);

  Tensor line = f64({1, 2, 2, 3}), at = f64({2, kNan, 0, 4});
  CHECK(list(searchsorted(line, at)) == Ints{1, 4, 0, 4});
  CHECK(list(searchsorted(line, at, true)) == Ints{3, 4, 0, 4});
  CHECK(searchsorted(line, 2.5).item<int64_t>() == 3);
  Tensor two = tensor({1, 3, 5, 2, 4, 6}, {2, 3});
  CHECK(list(searchsorted(two, tensor({3, 6, 3, 6}, {2, 2}))) == Ints{1, 3, 1, 2});
  CHECK(list(searchsorted(flip(i64({5, 3, 1}), 0), i64({4}))) == Ints{2});
  CHECK(searchsorted(line, zeros({0, 2}, DType::f64)).shape() == Shape{0, 2});
  CHECK(list(searchsorted(zeros({0}), ones({2}))) == Ints{0, 0});
  CHECK_THROWS_WITH_AS(searchsorted(two, ones({3})), doctest::Contains("do not fit"), Error);

  Histogram h = histogram(f64({1, 2, 2, 3, 3}), 4);
  CHECK(numbers(h.hist) == Doubles{1, 0, 2, 2});
  CHECK(numbers(h.bin_edges) == Doubles{1, 1.5, 2, 2.5, 3});
  CHECK(numbers(histogram(f64({1, 1}), 3).hist) == Doubles{0, 2, 0});
  CHECK(numbers(histogram(f64({1, 2, 5}), f64({1, 2, 3}), {.density = true}).hist) ==
        Doubles{0.5, 0.5});
  h = histogram(f64({1, 2, 5}), 2, {.range = {{1, 3}}, .weight = f64({1, 2, 3})});
  CHECK(numbers(h.hist) == Doubles{1, 2});
  CHECK(numbers(histogram(f64({1, kNan, 2}), 2, {.range = {{0, 3}}}).hist) == Doubles{1, 1});
  CHECK(numbers(histogram(zeros({0}), 2).bin_edges) == Doubles{0, 0.5, 1});
  CHECK_THROWS_WITH_AS(histogram(f64({1, kNan}), 3), doctest::Contains("not a range"), Error);
  CHECK_THROWS_WITH_AS(histogram(f64({1}), f64({2, 1})), doctest::Contains("ascend"), Error);
  CHECK_THROWS_WITH_AS(histogram(f64({1}), 0), doctest::Contains("at least one bin"), Error);
}

TEST_CASE("multinomial: frequencies, no replacement, errors") {
  Rng rng(11);
  const Tensor w = f64({1, 0, 3, 6});
  const int64_t n = 100000;
  Doubles counts = numbers(bincount(multinomial(w, n, rng, true), {}, 4));
  for (int64_t i = 0; i < 4; ++i) {
    const double p = w[i].item() / 10;
    CHECK(std::abs(counts[static_cast<size_t>(i)] / n - p) <= 5 * std::sqrt(p * (1 - p) / n));
  }
  // Without replacement, the first draw is distributed as with it, the second by the weights that
  // are left.
  Tensor rows = multinomial(expand(w, {n, 4}), 2, rng);
  Doubles first = numbers(bincount(select(rows, 1, 0), {}, 4));
  Doubles second = numbers(bincount(select(rows, 1, 1), {}, 4));
  const double after[] = {0.3 / 7 + 0.6 / 4, 0, 0.3 / 9 + 0.6 * 3 / 4, 0.6 / 9 + 1.8 / 7};
  for (int64_t i = 0; i < 4; ++i) {
    const double p = w[i].item() / 10, q = after[i];
    CHECK(std::abs(first[static_cast<size_t>(i)] / n - p) <= 5 * std::sqrt(p * (1 - p) / n));
    CHECK(std::abs(second[static_cast<size_t>(i)] / n - q) <= 5 * std::sqrt(q * (1 - q) / n));
  }
  CHECK(all(ne(select(rows, 1, 0), select(rows, 1, 1))).item<int>() == 1);
  CHECK(list(multinomial(tensor({0, 0, 1, 1, 0, 0}, {2, 3}), 1, rng)) == Ints{2, 0});
  CHECK(list(multinomial(tensor({0, 1e-30F, 0}, {3}), 3, rng, true)) == Ints{1, 1, 1});
  Rng a(3), b(3);
  CHECK(list(multinomial(w, 5, a, true)) == list(multinomial(w, 5, b, true)));
  CHECK(multinomial(zeros({0, 3}), 2, rng).shape() == Shape{0, 2});
  CHECK_THROWS_WITH_AS(multinomial(w, 4, rng),
                       doctest::Contains("cannot draw 4 different indices from 3"), Error);
  CHECK_THROWS_WITH_AS(multinomial(zeros({0, 2}), 3, rng),
                       doctest::Contains("multinomial: cannot draw 3 different indices from 2"),
                       Error);
  CHECK_THROWS_WITH_AS(multinomial(f64({0, 0}), 1, rng), doctest::Contains("all 0"), Error);
  CHECK_THROWS_WITH_AS(multinomial(f64({1, -1}), 1, rng), doctest::Contains("not negative"), Error);
  CHECK_THROWS_WITH_AS(multinomial(f64({1, kInf}), 1, rng), doctest::Contains("finite"), Error);
  CHECK_THROWS_WITH_AS(multinomial(i64({1, 2}), 1, rng), doctest::Contains("floating"), Error);
}

}  // namespace
}  // namespace tern::ops_statistics
