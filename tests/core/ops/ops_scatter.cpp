// Writing at indices (scatter, scatter_reduce, index_add, index_put), and nonzero, masked_select
// and meshgrid: the op table, PyTorch's values and gradients, errors.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/indexing/indexing.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_scatter {
namespace {

using test::op, test::Args, test::Array, test::Arrays, test::Doubles, test::f64,
    test::for_each_index, test::Ints, test::ints, test::kNan, test::list, test::numbers,
    test::OpRow;

const Ints kColumns = {2, 0, 2, 4, 0, 1};  // for rows 0 and 1, three sources each

Tensor columns(const Tensor& x) { return narrow(ints(kColumns, {2, 3}), 0, 0, x.size(0)); }

/// Combines x (2, 5) with sources (2, 3) at kColumns: each element becomes fn(old, source).
std::function<Array(const Arrays&)> put(double (*fn)(double, double)) {
  return [fn](const Arrays& in) {
    Array y = in[0];
    for_each_index(in[1].shape, [&](const Dims& i) {
      double& at = y.at({i[0], kColumns[static_cast<size_t>(i[0] * 3 + i[1])]});
      at = fn(at, in[1].at(i));
    });
    return y;
  };
}

OpRow reduced(const char* name, ScatterReduce how, double (*fn)(double, double)) {
  auto op = [how](const Args& x) { return scatter_reduce(x[0], -1, columns(x[0]), x[1], how); };
  return {name, {{2, 5}, {2, 3}}, op, put(fn)};
}

TEST_CASE("op table: scatter and its reductions") {
  auto mean = [](const Args& x) {
    return scatter_reduce(x[0], 1, columns(x[0]), x[1], ScatterReduce::mean);
  };
  auto naive_mean = [](const Arrays& in) {
    Array sum = in[0], count(in[0].shape);
    for (double& n : count.v) n = 1;
    for_each_index(in[1].shape, [&](const Dims& i) {
      const Dims at = {i[0], kColumns[static_cast<size_t>(i[0] * 3 + i[1])]};
      sum.at(at) += in[1].at(i);
      count.at(at) += 1;
    });
    for (int64_t i = 0; i < sum.numel(); ++i) sum[i] /= count[i];
    return sum;
  };
  OpRow largest = reduced("scatter amax", ScatterReduce::amax,
                          [](double a, double b) { return std::max(a, b); });
  OpRow smallest = reduced("scatter amin", ScatterReduce::amin,
                           [](double a, double b) { return std::min(a, b); });
  largest.skip_expanded = smallest.skip_expanded = true;
  op("scatter, each once", {{2, 5}, {2, 2}}, [](const Args& x) {
    return scatter(x[0], 1, narrow(ints({2, 0, 4, 1}, {2, 2}), 0, 0, x[0].size(0)), x[1]);
  }).equals([](const Arrays& in) {
    Array y = in[0];
    for_each_index(in[1].shape, [&](const Dims& i) {
      y.at({i[0], Ints{2, 0, 4, 1}[static_cast<size_t>(i[0] * 2 + i[1])]}) = in[1].at(i);
    });
    return y;
  });
  op("scatter a number", {{2, 5}}, [](const Args& x) {
    return scatter(x[0], -1, columns(x[0]), 1.5);
  }).equals([](const Arrays& in) {
    return put([](double, double b) { return b; })({in[0], [&] {
                                                      Array a({in[0].shape[0], 3});
                                                      for (double& v : a.v) v = 1.5;
                                                      return a;
                                                    }()});
  });
  op("scatter mean", {{2, 5}, {2, 3}}, mean).equals(naive_mean);
  test::run_rows({
      reduced("scatter sum", ScatterReduce::sum, [](double a, double b) { return a + b; }),
      reduced("scatter prod", ScatterReduce::prod, [](double a, double b) { return a * b; }),
      largest,
      smallest,
  });
}

TEST_CASE("op table: index_add, index_put, index, masked_select") {
  auto added = [](const Arrays& in) {
    Array y = in[0];
    for_each_index(in[1].shape, [&](const Dims& i) {
      y.at({i[0], Ints{3, 0, 3}[static_cast<size_t>(i[1])]}) += -0.5 * in[1].at(i);
    });
    return y;
  };
  auto rows = [] { return ints({1, -3, 0, 1}, {2, 2}); };
  auto cols = [] { return ints({2, 0}, {2}); };
  auto put_in = [](bool accumulate) {
    return [accumulate](const Arrays& in) {  // values (2, 3) at the last axes of (2, 2, 3)
      Array y = in[0];
      const Ints r = {1, 1, 0, 1}, c = {2, 0, 2, 0};
      for (size_t k = 0; k < 4; ++k)
        for (int64_t j = 0; j < in[0].shape[2]; ++j) {
          double& at = y.at({r[k], c[k], j});
          const double v =
              in[1].broadcast_at({static_cast<int64_t>(k / 2), static_cast<int64_t>(k % 2), j});
          at = accumulate ? at + v : v;
        }
      return y;
    };
  };
  auto putting = [=](bool accumulate) {
    return [=](const Args& x) {
      Tensor r = where(lt(rows(), 0), rows() + 1, rows());  // -3 + 1 means row 1 of 3
      return index_put(x[0], {r, cols()}, x[1], accumulate);
    };
  };
  op("index_add", {{2, 4}, {2, 3}}, [](const Args& x) {
    return index_add(x[0], 1, ints({3, 0, 3}, {3}), x[1], -0.5);
  }).equals(added);
  op("index_put, accumulate", {{3, 3, 2}, {2, 2}}, putting(true))
      .empty({{3, 3, 0}, {2, 0}})
      .equals(put_in(true));
  op("index", {{3, 3, 2}},
     [=](const Args& x) {
       return index(x[0], {rows(), Tensor(), ints({1}, {1})});
     })
      .empty({{3, 0, 2}})
      .equals([](const Arrays& in) {
        Array y({2, 2, in[0].shape[1]});
        const Ints r = {1, 0, 0, 1};
        for_each_index(y.shape, [&](const Dims& i) {
          y.at(i) = in[0].at({r[static_cast<size_t>(i[0] * 2 + i[1])], i[2], 1});
        });
        return y;
      });
  op("masked_select", {{2, 3}}, [](const Args& x) {
    return masked_select(x[0], tensor({1, 0, 1}, {3}, DType::u8));
  }).equals([](const Arrays& in) {
    Array y(Shape{in[0].shape[0] * 2});
    for (int64_t i = 0; i < y.numel(); ++i) y[i] = in[0].at({i / 2, i % 2 * 2});
    return y;
  });
}

TEST_CASE("index_add of integers: takes only whole multiples") {
  for (DType type : {DType::i64, DType::u8}) {
    const Tensor x = tensor({1, 2, 3, 4, 5, 6}, {2, 3}, type);
    const Tensor source = tensor({10, 20, 30, 40}, {2, 2}, type);
    const Tensor y = index_add(x, 1, ints({2, 2}, {2}), source, 3);
    CHECK(y.dtype() == type);
    CHECK(y.to_vector<int64_t>() == std::vector<int64_t>{1, 2, 93, 4, 5, 216});
    CHECK_THROWS_WITH_AS(index_add(x, 1, ints({2, 2}, {2}), source, 1.5),
                         doctest::Contains("index_add: alpha is 1.5, but the tensors are integers"),
                         Error);
    CHECK_THROWS_WITH_AS(index_add(x, 1, ints({2, 2}, {2}), source.to(DType::f32)),
                         doctest::Contains("index_add: adds f32 to"), Error);
  }
  // The result wraps around in u8, like sums and products.
  const Tensor x = tensor({200}, {1}, DType::u8), y = index_add(x, 0, ints({0}, {1}), x, -2);
  CHECK(y.item() == (200 - 400 + 256));
  const int64_t large = int64_t{1} << 60;  // has more digits than f64
  const Tensor exact = tensor(std::vector<int64_t>{large + 1});
  CHECK(index_add(exact, 0, ints({0}, {1}), exact, 3).item<int64_t>() == 4 * large + 4);
}

TEST_CASE("scatter: the last of several values stays, all get its gradient, like PyTorch") {
  Tensor x = f64({1, 2, 3}, {3}).set_requires_grad(), s = f64({5, 6, 7}, {3}).set_requires_grad();
  Tensor y = scatter(x, 0, ints({1, 1, 0}, {3}), s);
  CHECK(numbers(y) == Doubles{7, 6, 3});
  backward(sum(y * f64({1, 10, 100}, {3})));
  CHECK(numbers(x.grad()) == Doubles{0, 0, 100});
  CHECK(numbers(s.grad()) == Doubles{10, 10, 1});
}

TEST_CASE("scatter_reduce: the mean of u8 elements whose sum is no u8") {
  const Tensor at = ints({0, 0}, {2}), large = tensor({200, 210}, {2}, DType::u8);
  const Tensor mean =
      scatter_reduce(zeros({1}, DType::u8), 0, at, large, ScatterReduce::mean, false);
  CHECK(mean.dtype() == DType::u8);
  CHECK(mean.item() == 205);
}

TEST_CASE("scatter_reduce: without x itself, integers, ties, zeros") {
  struct Row {
    ScatterReduce how;
    Doubles with, without;
  };
  const std::vector<Row> rows = {
      {ScatterReduce::sum, {12, 2, 7}, {11, 2, 4}}, {ScatterReduce::prod, {30, 2, 12}, {30, 2, 4}},
      {ScatterReduce::mean, {4, 2, 3}, {5, 2, 4}},  {ScatterReduce::amax, {6, 2, 4}, {6, 2, 4}},
      {ScatterReduce::amin, {1, 2, 3}, {5, 2, 4}},
  };
  for (DType type : {DType::u8, DType::i64, DType::f32, DType::f64})
    for (const Row& r : rows) {
      Tensor x = tensor({1, 2, 3}, {3}).to(type), s = tensor({5, 4, 6}, {3}).to(type);
      Tensor at = ints({0, 2, 0}, {3});
      auto run = [&](bool self) { return numbers(scatter_reduce(x, 0, at, s, r.how, self)); };
      Doubles with = r.with, without = r.without;
      if (is_float(type) && r.how == ScatterReduce::mean) with[2] = 3.5, without[0] = 5.5;
      CHECK(run(true) == with);
      CHECK(run(false) == without);
    }
  // PyTorch's gradients of the sum of the result.
  auto gradients = [](std::initializer_list<double> of_x, std::initializer_list<double> of_s,
                      ScatterReduce how, bool self) {
    Tensor x = f64(of_x, {2}).set_requires_grad(), s = f64(of_s, {3}).set_requires_grad();
    backward(sum(scatter_reduce(x, 0, ints({0, 0, 0}, {3}), s, how, self)));
    Doubles all = numbers(x.grad()), more = numbers(s.grad());
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  CHECK(gradients({2, 9}, {2, 2, 1}, ScatterReduce::amax, true) ==
        Doubles{1 / 3., 1, 1 / 3., 1 / 3., 0});
  CHECK(gradients({2, 9}, {2, 2, 1}, ScatterReduce::amax, false) == Doubles{0, 1, 0.5, 0.5, 0});
  CHECK(gradients({3, 9}, {2, 0, 5}, ScatterReduce::prod, true) == Doubles{0, 1, 0, 30, 0});
  CHECK(gradients({3, 9}, {2, 0, 0}, ScatterReduce::prod, true) == Doubles{0, 1, 0, 0, 0});
  CHECK(gradients({0, 9}, {2, 4, 5}, ScatterReduce::prod, true) == Doubles{40, 1, 0, 0, 0});
  CHECK(gradients({3, 9}, {2, 0, 5}, ScatterReduce::prod, false) == Doubles{0, 1, 0, 10, 0});
  CHECK(gradients({3, 9}, {2, 0, 5}, ScatterReduce::mean, true) ==
        Doubles{0.25, 1, 0.25, 0.25, 0.25});
  // With one zero there are second derivatives. With two there is an error.
  Tensor x = f64({3}, {1}).set_requires_grad(), at = ints({0, 0}, {2});
  auto product = [&](const Tensor& s) { return scatter_reduce(x, 0, at, s, ScatterReduce::prod); };
  Tensor s = f64({0, 5}, {2}).set_requires_grad();
  Tensor first = grad({product(s)}, {s}, {.create_graph = true})[0];  // (x s1, x s0)
  CHECK(numbers(grad({sum(first)}, {s})[0]) == Doubles{3, 3});
  Tensor none = f64({0, 0}, {2}).set_requires_grad();
  CHECK_THROWS_WITH_AS(grad({product(none)}, {none}, {.create_graph = true}),
                       doctest::Contains("no second derivative"), Error);
  CHECK(std::isnan(
      scatter_reduce(f64({1}, {1}), 0, at, f64({kNan, 2}, {2}), ScatterReduce::amax).item()));
}

TEST_CASE("index_put: masks, neighbours, whole axes, types, errors") {
  Tensor x = reshape(arange(0, 12), {3, 4});
  CHECK(list(index_put(x, {gt(x, 8)}, scalar(0, DType::i64))) ==
        Ints{0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0});
  CHECK(list(index_put(x, {Tensor(), ints({-1}, {1})}, ints({7, 8, 9}, {3, 1}))) ==
        Ints{0, 1, 2, 7, 4, 5, 6, 8, 8, 9, 10, 9});
  CHECK(list(index_put(x, {ints({0, 0}, {2})}, ints({5}, {1}), true)[0]) == Ints{10, 11, 12, 13});
  CHECK(list(index(x, {tensor({0, 1, 1}, {3}, DType::u8), ints({3, 0}, {2})})) == Ints{7, 8});
  Tensor deep = reshape(arange(0, 24), {2, 3, 4});
  CHECK(index(deep, {Tensor(), ints({0, 1}, {2}), ints({1, 2}, {2})}).shape() == Shape{2, 2});
  CHECK(index(deep, {ints({0, 1}, {2}), Tensor(), ints({1, 2}, {2})}).shape() == Shape{2, 3});
  CHECK(index(deep, {Tensor(), ints({0, 1, 2, 0}, {4, 1})}).shape() == Shape{2, 4, 1, 4});
  CHECK(list(index(deep, {Tensor(), ints({2}, {1}), ints({-1}, {1})})) == Ints{11, 23});
  CHECK(index(x, {zeros({0}, DType::i64)}).shape() == Shape{0, 4});
  CHECK_THROWS_WITH_AS(index(x, {ints({-4}, {1})}), doctest::Contains("index: index -1"), Error);
  CHECK_THROWS_WITH_AS(index(x, {ones({2}, DType::u8)}), doctest::Contains("the mask (2,)"), Error);
  CHECK_THROWS_WITH_AS(index(x, {ones({3})}), doctest::Contains("must be i64"), Error);
  for (const Tensor& t : {scalar(1, DType::u8), eq(scalar(1), 1)})
    CHECK_THROWS_WITH_AS(index(x, {t}), doctest::Contains("neither a mask nor a number"), Error);
  CHECK(list(index(x, {scalar(2, DType::i64)})) == list(x[2]));
  CHECK_THROWS_WITH_AS(index(x, {}), doctest::Contains("at least one"), Error);
  CHECK_THROWS_WITH_AS(index(x, {ints({0}, {1}), ints({0}, {1}), ints({0}, {1})}),
                       doctest::Contains("3 indices"), Error);
  CHECK_THROWS_WITH_AS(
      index_put(zeros({2, 3}), {ints({1}, {1})}, zeros({3, 1})),
      "index_put: values (3, 1) do not broadcast to (1, 3), the shape of x[indices]", Error);
  CHECK_THROWS_WITH_AS(index_put(x, {ints({0}, {1})}, ones({4})), doctest::Contains("writes f32"),
                       Error);
}

TEST_CASE("nonzero: positions in order, no axes, no elements, long input") {
  CHECK(list(nonzero(tensor({0, 1, kNan, 0, -0.0, 3}, {2, 3}))) == Ints{0, 1, 0, 2, 1, 2});
  CHECK(list(nonzero(transpose(tensor({0, 1, 2, 0, 0, 3}, {2, 3}), 0, 1))) ==
        Ints{1, 0, 2, 0, 2, 1});
  CHECK(nonzero(scalar(2)).shape() == Shape{1, 0});
  CHECK(nonzero(scalar(0)).shape() == Shape{0, 0});
  CHECK(nonzero(zeros({0, 3})).shape() == Shape{0, 2});
  std::vector<Tensor> axes = nonzero_as_tuple(tensor({0, 1, 2, 0}, {2, 2}));
  CHECK(axes.size() == 2);
  CHECK(list(axes[0]) == Ints{0, 1});
  CHECK(list(axes[1]) == Ints{1, 0});
  CHECK(list(nonzero_as_tuple(scalar(1))[0]) == Ints{0});
  CHECK(masked_select(zeros({0, 3}), ones({3}, DType::u8)).shape() == Shape{0});
  CHECK_THROWS_WITH_AS(masked_select(ones({2}), ones({2})), doctest::Contains("u8"), Error);
  Rng rng(3);
  Tensor x = randint(0, 3, {100, 1001}, rng);
  test::check_threads({3}, [&] { return list(nonzero(x)); });
  CHECK(sum(ne(x, 0)).item<int64_t>() * 2 == nonzero(x).numel());
}

TEST_CASE("indices: masks are refused; take_along_axis accepts negative ones") {
  Tensor x = reshape(arange(0, 6), {2, 3});
  CHECK(list(take_along_axis(x, ints({-1, -3}, {2, 1}), 1)) == Ints{2, 3});
  const Tensor mask = gt(x, 2);
  const std::vector<std::function<Tensor()>> masked = {
      [&] { return gather(x, 1, mask); },          [&] { return take_along_axis(x, mask, 1); },
      [&] { return index_select(x, 1, mask[0]); }, [&] { return scatter_add(x, 1, mask, x); },
      [&] { return index_add(x, 1, mask[0], x); }, [&] { return embedding(mask, ones({3, 2})); }};
  for (const auto& read : masked)
    CHECK_THROWS_WITH_AS(static_cast<void>(read()),
                         doctest::Contains("must be i64, got u8; convert with .to(DType::i64), or "
                                           "read by a mask"),
                         Error);
  CHECK_THROWS_WITH_AS(take_along_axis(x, ints({-4, 0}, {2, 1}), 1),
                       doctest::Contains("take_along_axis: index -4 at position"), Error);
  CHECK_THROWS_WITH_AS(gather(x, 1, ones({2, 1})), doctest::Contains("must be i64"), Error);
  CHECK_THROWS_WITH_AS(scatter(x, 1, ints({3, 0}, {2, 1}), 1), doctest::Contains("index 3"), Error);
}

TEST_CASE("meshgrid: both orders") {
  std::vector<Tensor> g = meshgrid({arange(0, 2), arange(5, 8)});
  CHECK(list(g[0]) == Ints{0, 0, 0, 1, 1, 1});
  CHECK(list(g[1]) == Ints{5, 6, 7, 5, 6, 7});
  g = meshgrid({arange(0, 2), arange(5, 8), scalar(1)}, Indexing::xy);
  CHECK(g[0].shape() == Shape{3, 2, 1});
  CHECK(list(g[0]) == Ints{0, 1, 0, 1, 0, 1});
  CHECK(list(g[1]) == Ints{5, 5, 6, 6, 7, 7});
  CHECK(meshgrid({arange(0, 2)}, Indexing::xy)[0].shape() == Shape{2});
  CHECK_THROWS_WITH_AS(meshgrid({zeros({2, 2})}), doctest::Contains("meshgrid: needs vectors"),
                       Error);
}

}  // namespace
}  // namespace tern::ops_scatter
