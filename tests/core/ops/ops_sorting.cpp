// sort, argsort, topk and argmax: the op table, order of equal elements and NaN, integers, errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <type_traits>
#include <utility>

#include "tern/core/base/rng.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/statistics/statistics.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/same_bits.h"
#include "tern/tests/support/tensors.h"

namespace tern::ops_sorting {
namespace {

using test::op, test::Args, test::Array, test::Arrays, test::Doubles, test::Ints, test::ints,
    test::kInf, test::kNan, test::list;

// The positions of the first k elements in the order of a stable sort.
Ints order_of(const std::vector<double>& line, int64_t k, bool descending) {
  Ints at(line.size());
  std::iota(at.begin(), at.end(), 0);
  std::stable_sort(at.begin(), at.end(), [&](int64_t a, int64_t b) {
    double x = line[static_cast<size_t>(a)], y = line[static_cast<size_t>(b)];
    return descending ? x > y : x < y;
  });
  at.resize(static_cast<size_t>(k));
  return at;
}

// The first k sorted values along axis 0 or 1 of a matrix.
Array ordered(const Array& x, int axis, int64_t k, bool descending) {
  Shape shape = x.shape;
  shape[axis] = k;
  Array y(shape);
  for (int64_t line = 0; line < shape[1 - axis]; ++line) {
    auto at = [&](int64_t i) { return axis == 0 ? Dims{i, line} : Dims{line, i}; };
    std::vector<double> values;
    for (int64_t i = 0; i < x.shape[axis]; ++i) values.push_back(x.at(at(i)));
    Ints order = order_of(values, k, descending);
    for (int64_t i = 0; i < k; ++i)
      y.at(at(i)) = values[static_cast<size_t>(order[static_cast<size_t>(i)])];
  }
  return y;
}

TEST_CASE("op table: sorting") {
  op("sort", {{3, 5}}, [](const Args& x) {
    return sort(x[0]).values * sort(x[0]).values;
  }).equals([](const Arrays& x) {
    Array y = ordered(x[0], 1, 5, false);
    for (double& v : y.v) v *= v;
    return y;
  });
  op("sort, first axis, descending", {{5, 3}},
     [](const Args& x) { return sort(x[0], 0, true).values; })
      .no_expanded()
      .equals([](const Arrays& x) { return ordered(x[0], 0, x[0].shape[0], true); });
  op("topk", {{3, 6}}, [](const Args& x) {
    return topk(x[0], 2).values;
  }).equals([](const Arrays& x) { return ordered(x[0], 1, 2, true); });
  op("topk, first axis, smallest", {{6, 3}},
     [](const Args& x) { return topk(x[0], 4, 0, false).values; })
      .no_empty()
      .no_expanded()
      .equals([](const Arrays& x) { return ordered(x[0], 0, 4, false); });
  op("argmax", {{3, 6}}, [](const Args& x) { return argmax(x[0], -1).to(x[0].dtype()); })
      .no_gradient()
      .equals([](const Arrays& x) {
        Array y(Shape{x[0].shape[0]});
        for (int64_t r = 0; r < y.numel(); ++r)
          for (int64_t c = 1; c < 6; ++c)
            if (x[0].at({r, c}) > x[0].at({r, static_cast<int64_t>(y[r])}))
              y[r] = static_cast<double>(c);
        return y;
      });
  op("argmin, first axis, keepdim", {{6, 3}},
     [](const Args& x) { return argmin(x[0], 0, true).to(x[0].dtype()); })
      .no_gradient()
      .no_empty()
      .equals([](const Arrays& x) {
        Array y({1, 3});
        for (int64_t c = 0; c < 3; ++c)
          for (int64_t r = 1; r < 6; ++r)
            if (x[0].at({r, c}) < x[0].at({static_cast<int64_t>(y[c]), c}))
              y[c] = static_cast<double>(r);
        return y;
      });
}

TEST_CASE("sort is stable and treats NaN as the greatest") {
  Tensor x = tensor({2, kNan, 1, kInf, 2, -kInf, kNan, 1}, {8});
  CHECK(list(argsort(x)) == Ints{5, 2, 7, 0, 4, 3, 1, 6});
  CHECK(list(argsort(x, 0, true)) == Ints{1, 6, 3, 0, 4, 2, 7, 5});
  CHECK(list(topk(x, 4).indices) == Ints{1, 6, 3, 0});
  CHECK(list(topk(x, 4, 0, false).indices) == Ints{5, 2, 7, 0});
  CHECK(list(argmax(x, 0)) == Ints{1});
  CHECK(list(argmin(x, 0)) == Ints{1});
  CHECK(list(sort(tensor({0.0, -0.0, 0.0}, {3})).indices) == Ints{0, 1, 2});
}

TEST_CASE("sorting integers, long lines, no axes, no elements") {
  Tensor big =
      ints({std::numeric_limits<int64_t>::max(), -1, 9007199254740993, 9007199254740992}, {4});
  CHECK(list(sort(big).indices) == Ints{1, 3, 2, 0});
  CHECK(list(sort(tensor(std::vector<uint8_t>{3, 255, 0}, {3})).values) == Ints{0, 3, 255});
  CHECK(list(argmax(ints({1, 5, 5}, {3}), 0)) == Ints{1});
  CHECK(argmax(big, 0).dtype() == DType::i64);

  Rng rng(3);
  Tensor x = randint(0, 50, {3, 2000}, rng);
  Array want = ordered(test::to_array(x), 1, 2000, true);
  CHECK(test::to_array(sort(x, 1, true).values).v == want.v);
  Ints line = list(x[1]);
  CHECK(list(topk(x, 100).indices[1]) == order_of(Doubles(line.begin(), line.end()), 100, true));

  CHECK(sort(scalar(3)).values.shape() == Shape{});
  CHECK(list(sort(scalar(3)).indices) == Ints{0});
  CHECK(topk(scalar(3), 1).values.shape() == Shape{});
  CHECK(argmax(scalar(3), -1).shape() == Shape{});
  CHECK(sort(empty({2, 0})).indices.shape() == Shape{2, 0});
  CHECK(topk(empty({2, 3}), 0).values.shape() == Shape{2, 0});
  CHECK(argmax(empty({0, 3}), 1).shape() == Shape{0});
  CHECK_THROWS_AS(argmax(empty({0, 3}), 0), Error);
  CHECK_THROWS_AS(topk(x, 2001), Error);
  CHECK_THROWS_AS(topk(x, -1), Error);
  CHECK_THROWS_AS(sort(x, 2), Error);
}

// Long lines are sorted by the bytes of keys, whose order must be that of the numbers. Equal
// numbers, and NaN with different bits, keep their order and their bits.
template <class T>
void check_every_order(std::vector<T> line) {
  std::mt19937 random(7);
  while (line.size() < 300) line.push_back(line[random() % line.size()]);
  std::shuffle(line.begin(), line.end(), random);
  const auto size = static_cast<int64_t>(line.size());
  const Tensor x = tensor(line, {size});
  for (bool descending : {false, true}) {
    CAPTURE(descending);
    Ints want(line.size());
    std::iota(want.begin(), want.end(), 0);
    std::stable_sort(want.begin(), want.end(), [&](int64_t i, int64_t j) {
      T a = line[static_cast<size_t>(i)], b = line[static_cast<size_t>(j)];
      if (descending) std::swap(a, b);
      return a < b || (b != b && a == a);
    });
    const ValuesIndices all = sort(x, 0, descending);
    CHECK(list(all.indices) == want);
    CHECK(test::same_bits(all.values, gather(x, 0, all.indices)));
    for (int64_t k : {1, 18, 19, 299, 300})
      CHECK(list(topk(x, k, 0, descending).indices) == Ints(want.begin(), want.begin() + k));
    for (int64_t k = 1; !descending && k <= size; ++k)
      CHECK(kthvalue(x, k).indices.item<int64_t>() == want[static_cast<size_t>(k - 1)]);
  }
}

template <class T>
std::vector<T> special_numbers() {
  using Limits = std::numeric_limits<T>;
  std::vector<T> line = {T(0), T(1), T(2), T(255), Limits::max(), Limits::lowest(), Limits::min()};
  if constexpr (std::is_signed_v<T>)
    for (T v : {T(-1), T(-2), T(-255), T(-256), T(65536), T(-65537)}) line.push_back(v);
  if constexpr (std::is_floating_point_v<T>)
    for (T v : {T(-0.0), Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                -Limits::quiet_NaN(), Limits::denorm_min(), -Limits::denorm_min(), -Limits::min(),
                T(1) + Limits::epsilon(), T(-1) - Limits::epsilon()})
      line.push_back(v);
  return line;
}

TEST_CASE("sort: every number is in its order, from both ends, in long lines") {
  check_every_order(special_numbers<float>());
  check_every_order(special_numbers<double>());
  check_every_order(special_numbers<int64_t>());
  check_every_order(special_numbers<uint8_t>());
  check_every_order(std::vector<float>{3});
}

}  // namespace
}  // namespace tern::ops_sorting
