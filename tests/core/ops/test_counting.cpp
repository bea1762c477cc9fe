// unique, bincount, searchsorted, histogram and multinomial along every axis of shapes of one to
// four axes, against naive loops.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/statistics/statistics.h"

namespace tern::test_counting {

namespace {

using Doubles = std::vector<double>;
using Ints = std::vector<int64_t>;

const std::vector<Shape> kShapes = {{5},          {1},          {3, 4},       {4, 1},
                                    {2, 2, 2},    {3, 2, 4},    {1, 5, 2},    {2, 2, 2, 2},
                                    {2, 3, 2, 4}, {3, 1, 2, 2}, {2, 2, 3, 1}, {1, 2, 1, 3}};

/// Integers from 0 to values - 1: few, so that many elements and slices are equal.
Tensor few(const Shape& shape, int64_t values, Rng& rng) {
  return floor(uniform(shape, 0, static_cast<double>(values), rng, DType::f64));
}

/// The same, with a quarter of the elements NaN.
Tensor few_or_nan(const Shape& shape, int64_t values, Rng& rng) {
  const Tensor nan = lt(uniform(shape, 0, 1, rng, DType::f64), 0.25);
  return masked_fill(few(shape, values, rng), nan, std::numeric_limits<double>::quiet_NaN());
}

bool less(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }
bool less_slice(const Doubles& a, const Doubles& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), less);
}
bool same(const Doubles& a, const Doubles& b) {
  return a.size() == b.size() && !less_slice(a, b) && !less_slice(b, a);
}

/// The elements of slice i along an axis, in row-major order of the other axes.
Doubles slice_of(const Tensor& x, int axis, int64_t i) {
  return narrow(x, axis, i, 1).to_vector<double>();
}

/// The distinct slices of x, sorted by their elements or in order of first occurrence.
std::vector<Doubles> distinct(const Tensor& x, int axis, bool sorted) {
  std::vector<Doubles> slices;
  for (int64_t i = 0; i < x.size(axis); ++i) {
    Doubles s = slice_of(x, axis, i);
    if (std::find(slices.begin(), slices.end(), s) == slices.end()) slices.push_back(s);
  }
  if (sorted) std::stable_sort(slices.begin(), slices.end(), less_slice);
  return slices;
}

void check_slices(const Tensor& x, int64_t given, bool sorted) {
  const int axis = static_cast<int>(given < 0 ? given + x.ndim() : given);
  const std::vector<Doubles> want = distinct(x, axis, sorted);
  const Unique got =
      unique(x, {.sorted = sorted, .return_inverse = true, .return_counts = true, .axis = given});
  Shape shape = x.shape();
  shape[axis] = static_cast<int64_t>(want.size());
  REQUIRE(got.values.shape() == shape);
  REQUIRE(got.inverse.shape() == Shape{x.size(axis)});
  REQUIRE(got.counts.shape() == Shape{shape[axis]});
  const Ints inverse = got.inverse.to_vector<int64_t>(), counts = got.counts.to_vector<int64_t>();
  for (int64_t k = 0; k < shape[axis]; ++k) {
    CHECK(same(slice_of(got.values, axis, k), want[static_cast<size_t>(k)]));
    CHECK(counts[static_cast<size_t>(k)] == std::count(inverse.begin(), inverse.end(), k));
  }
  for (int64_t i = 0; i < x.size(axis); ++i)
    CHECK(same(want[static_cast<size_t>(inverse[static_cast<size_t>(i)])], slice_of(x, axis, i)));
}

TEST_CASE("unique along every axis of every rank") {
  Rng rng(1);
  for (const Shape& shape : kShapes)
    for (int64_t axis = -static_cast<int64_t>(shape.size()); axis < std::ssize(shape); ++axis)
      for (DType type : {DType::f32, DType::f64, DType::i64, DType::u8})
        for (bool sorted : {true, false}) {
          CAPTURE(shape);
          CAPTURE(axis);
          const Tensor x =
              (is_float(type) ? few_or_nan(shape, 2, rng) : few(shape, 2, rng)).to(type);
          check_slices(x, axis, sorted);
          if (shape.size() > 1) check_slices(transpose(x, 0, -1), axis, sorted);
        }
}

TEST_CASE("unique along the last of three axes is PyTorch's") {
  const Tensor x = tensor({0, 0, 1, 0, 0, 1, 0, 0}, {2, 2, 2});
  const Unique got = unique(x, {.return_inverse = true, .axis = 2});
  CHECK(got.inverse.to_vector<int64_t>() == Ints{1, 0});
  CHECK(got.values.to_vector<double>() == Doubles{0, 0, 0, 1, 1, 0, 0, 0});
}

void check_elements(const Tensor& x, bool sorted) {
  const Doubles values = x.to_vector<double>();
  Doubles want;  // NaN never equals NaN
  for (double v : values)
    if (std::find(want.begin(), want.end(), v) == want.end()) want.push_back(v);
  if (sorted) std::stable_sort(want.begin(), want.end(), less);
  const Unique got = unique(x, {.sorted = sorted, .return_inverse = true, .return_counts = true});
  REQUIRE(got.inverse.shape() == x.shape());
  REQUIRE(got.values.dtype() == x.dtype());
  CHECK(same(got.values.to_vector<double>(), want));
  const Ints inverse = got.inverse.to_vector<int64_t>(), counts = got.counts.to_vector<int64_t>();
  REQUIRE(counts.size() == want.size());
  for (size_t k = 0; k < want.size(); ++k)
    CHECK(counts[k] == std::count(inverse.begin(), inverse.end(), static_cast<int64_t>(k)));
  for (size_t i = 0; i < values.size(); ++i)
    CHECK(same({want[static_cast<size_t>(inverse[i])]}, {values[i]}));
}

TEST_CASE("unique of all elements of every rank") {
  Rng rng(2);
  std::vector<Shape> shapes = kShapes;
  shapes.insert(shapes.end(), {{}, {0}, {0, 3}, {2, 0}, {4, 5, 6}});
  for (const Shape& shape : shapes)
    for (DType type : {DType::f32, DType::f64, DType::i64, DType::u8})
      for (bool sorted : {true, false}) {
        CAPTURE(shape);
        CAPTURE(name(type));
        const Tensor x = (is_float(type) ? few_or_nan(shape, 4, rng) : few(shape, 4, rng)).to(type);
        check_elements(x, sorted);
        if (shape.size() > 1) check_elements(transpose(x, 0, -1), sorted);
      }
}

TEST_CASE("searchsorted in lines of every rank") {
  Rng rng(3);
  for (const Shape& shape : kShapes)
    for (int64_t m : {1, 3})
      for (bool right : {false, true})
        for (bool one_line : {false, true}) {
          CAPTURE(shape);
          Shape wanted = shape;
          wanted[static_cast<int>(shape.size()) - 1] = m;
          const int64_t n = shape.back(), lines = numel(shape) / n;
          const DType type = rng.below(2) ? DType::f32 : DType::f64;
          const Tensor sorted =
              sort(few_or_nan(one_line ? Shape{n} : shape, 4, rng).to(type)).values;
          const Tensor values = (few_or_nan(wanted, 5, rng) - 0.5 * few(wanted, 2, rng)).to(type);
          const Tensor got = searchsorted(sorted, values, right);
          REQUIRE(got.shape() == wanted);
          const Doubles line = sorted.to_vector<double>(), v = values.to_vector<double>();
          Ints want;
          for (int64_t i = 0; i < lines * m; ++i) {
            int64_t place = 0;
            for (int64_t k = 0; k < n; ++k) {
              const double element = line[static_cast<size_t>((one_line ? 0 : i / m * n) + k)];
              const double value = v[static_cast<size_t>(i)];
              place += right ? !less(value, element) : less(element, value);
            }
            want.push_back(place);
          }
          CHECK(got.to_vector<int64_t>() == want);
        }
}

TEST_CASE("searchsorted of no numbers, of one number, and of integers among fractions") {
  CHECK(searchsorted(zeros({0}), tensor({1, 2}, {2})).to_vector<int64_t>() == Ints{0, 0});
  CHECK(searchsorted(tensor({1, 2}, {2}), zeros({0})).shape() == Shape{0});
  CHECK(searchsorted(zeros({2, 0}), zeros({2, 3})).to_vector<int64_t>() == Ints(6));
  CHECK(searchsorted(tensor({1, 2}, {2}), full({}, 1.5)).item<int64_t>() == 1);
  // f32 cannot represent 2^24 + 1.
  const int64_t n = 1 << 24;
  const Tensor integers = tensor(Ints{n, n + 1, n + 2});
  CHECK(searchsorted(integers, 16777217.0).item<int64_t>() == 1);
  CHECK(searchsorted(integers, 16777217.0, true).item<int64_t>() == 2);
  CHECK(searchsorted(integers, 16777216.5).item<int64_t>() == 1);
  CHECK(searchsorted(integers, n + 1).item<int64_t>() == 1);
  const Tensor f32 = tensor({n, n + 2}, {2});
  CHECK(searchsorted(f32, integers).to_vector<int64_t>() == Ints{0, 1, 1});
  CHECK(searchsorted(f32, integers, true).to_vector<int64_t>() == Ints{1, 1, 2});
  CHECK(searchsorted(integers, f32).to_vector<int64_t>() == Ints{0, 2});
}

/// The sum of weights in each bin by a loop over all elements. A density is divided by the total
/// and by the width of the bin.
Doubles histogram_by_hand(const Doubles& x, const Doubles& weight, const Doubles& edges,
                          bool density) {
  Doubles bins(edges.size() - 1);
  for (size_t i = 0; i < x.size(); ++i)
    for (size_t b = 0; b < bins.size(); ++b) {
      const bool last = b + 1 == bins.size();
      if (x[i] >= edges[b] && (last ? x[i] <= edges[b + 1] : x[i] < edges[b + 1]))
        bins[b] += weight.empty() ? 1 : weight[i];
    }
  double total = 0;
  for (double b : bins) total += b;
  for (size_t b = 0; density && b < bins.size(); ++b) bins[b] /= total * (edges[b + 1] - edges[b]);
  return bins;
}

TEST_CASE("histograms of every rank, with NaN, weights and densities") {
  Rng rng(6);
  std::vector<Shape> shapes = kShapes;
  shapes.insert(shapes.end(), {{}, {0}, {2, 0}, {40, 5}});
  const Tensor wide = tensor(Doubles{-0.5, 0, 1, 1, 2.25, 7});  // one bin has width 0
  const Tensor plain = tensor(Doubles{0, 1, 2, 3});
  for (const Shape& shape : shapes)
    for (DType type : {DType::f32, DType::f64})
      for (bool weighted : {false, true})
        for (bool density : {false, true}) {
          CAPTURE(shape);
          const Tensor x = few_or_nan(shape, 5, rng).to(type);
          HistogramOptions o{.density = density};
          if (weighted) o.weight = ((few(shape, 8, rng) - 2) * 0.125).to(type);
          const Tensor& given = density ? plain : wide;  // a bin of width 0 has no density
          const Doubles values = x.to_vector<double>(),
                        weight = weighted ? o.weight.to_vector<double>() : Doubles();
          auto check_bins = [&](const Histogram& got, const Doubles& edges) {
            CHECK(got.hist.dtype() == type);
            const Doubles bins = got.hist.to_vector<double>();
            const Doubles want = histogram_by_hand(values, weight, edges, density);
            REQUIRE(bins.size() == want.size());
            for (size_t b = 0; b < bins.size(); ++b) {
              const bool number = std::isfinite(want[b]);  // otherwise the weights sum to 0
              CHECK((number ? std::abs(bins[b] - want[b]) <= 0x1p-22 * std::abs(want[b])
                            : !std::isfinite(bins[b])));
            }
          };
          check_bins(histogram(x, given.to(type), o), given.to_vector<double>());
          o.range = {{0, 3}};
          check_bins(histogram(x, 3, o), plain.to_vector<double>());
        }
}

TEST_CASE("histograms without a given range") {
  for (DType type : {DType::f32, DType::f64}) {
    auto of = [type](const Doubles& v) { return tensor(v).to(type); };
    const Histogram none = histogram(zeros({0}, type), 2), one = histogram(full({}, 3, type), 2);
    CHECK(none.hist.to_vector<double>() == Doubles{0, 0});
    CHECK(none.bin_edges.to_vector<double>() == Doubles{0, 0.5, 1});
    CHECK(one.hist.to_vector<double>() == Doubles{0, 1});
    CHECK(one.bin_edges.to_vector<double>() == Doubles{2.5, 3, 3.5});
    CHECK(histogram(of({-3e38, 3e38}), 2).hist.to_vector<double>() == Doubles{1, 1});
    CHECK_THROWS_WITH_AS(histogram(of({1, std::nan("")}), 2), doctest::Contains("not a range"),
                         Error);
  }
  CHECK_THROWS_WITH_AS(histogram(tensor(Doubles{-1e308, 1e308}), 2),
                       doctest::Contains("the range -1e+308 to 1e+308 is too wide"), Error);
  CHECK(bincount(zeros({0}, DType::i64)).numel() == 0);
  CHECK(bincount(zeros({0}, DType::u8), {}, 2).to_vector<int64_t>() == Ints{0, 0});
  CHECK(bincount(zeros({0}, DType::i64), zeros({0})).dtype() == DType::f32);
  CHECK_THROWS_AS(bincount(zeros({}, DType::i64)), Error);
}

TEST_CASE("bincount and histogram against loops") {
  Rng rng(4);
  for (const Shape& shape : kShapes) {
    CAPTURE(shape);
    const Tensor x = few(shape, 5, rng), weight = few(shape, 8, rng) * 0.125;
    const Doubles v = x.to_vector<double>(), w = weight.to_vector<double>();
    Doubles counts(5), sums(5), bins(4), weighted(4);
    for (size_t i = 0; i < v.size(); ++i) {
      const auto at = static_cast<size_t>(v[i]);
      counts[at] += 1;
      sums[at] += w[i];
      bins[std::min<size_t>(at, 3)] += 1;  // [0, 1), [1, 2), [2, 3), [3, 4]
      weighted[std::min<size_t>(at, 3)] += w[i];
    }
    const Tensor whole = reshape(x, {x.numel()}).to(DType::i64);
    CHECK(bincount(whole, {}, 5).to_vector<double>() == counts);
    const Tensor weights = reshape(weight, {x.numel()});
    CHECK(bincount(whole, weights, 5).to_vector<double>() == sums);
    CHECK(histogram(x, 4, {.range = {{0, 4}}}).hist.to_vector<double>() == bins);
    const Tensor edges = tensor(Doubles{0, 1, 2, 3, 4});
    CHECK(histogram(x, edges, {.weight = weight}).hist.to_vector<double>() == weighted);
    if (x.ndim() > 1)  // the order of elements has no effect
      CHECK(histogram(transpose(x, 0, -1), edges).hist.to_vector<double>() == bins);
  }
}

TEST_CASE("multinomial draws each row by the row's own weights") {
  Rng rng(5);
  const int64_t rows = 3, columns = 4, n = 20000;
  Tensor weights = uniform({rows, columns}, 0.1, 1, rng, DType::f64);
  weights = weights * tensor(Doubles{1, 0, 1, 1, 1, 1, 0, 1, 0, 1, 1, 1}, {rows, columns});
  const Tensor shares = weights / sum(weights, -1, true);
  auto check_row = [&](const Tensor& drawn, int64_t row) {
    const Tensor counts = bincount(drawn, {}, columns);
    for (int64_t c = 0; c < columns; ++c) {
      const double p = narrow(narrow(shares, 0, row, 1), 1, c, 1).item();
      const double got = narrow(counts, 0, c, 1).item(), want = p * n;
      CHECK((p > 0 || got == 0));
      CHECK(std::abs(got - want) <= 5 * std::sqrt(n * p * (1 - p)));  // five deviations
    }
  };
  const Tensor drawn = multinomial(weights, n, rng, true);
  REQUIRE(drawn.shape() == Shape{rows, n});
  for (int64_t r = 0; r < rows; ++r) {
    check_row(reshape(narrow(drawn, 0, r, 1), {n}), r);
    check_row(multinomial(reshape(narrow(weights, 0, r, 1), {columns}), n, rng, true), r);
  }
  // Without replacement, each of the three nonzero weights is drawn once.
  const Ints all = multinomial(weights, 3, rng).to_vector<int64_t>();
  for (int64_t r = 0; r < rows; ++r) {
    Ints row(all.begin() + 3 * r, all.begin() + 3 * (r + 1));
    std::sort(row.begin(), row.end());
    Ints want;
    for (int64_t c = 0; c < columns; ++c)
      if (narrow(narrow(weights, 0, r, 1), 1, c, 1).item() > 0) want.push_back(c);
    CHECK(row == want);
  }
}

}  // namespace

}  // namespace tern::test_counting
