// matmul and linear in the op table, gradients that add up in place, same bits on any number of
// threads, and the memory that backward keeps.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/einsum/einsum.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_matmul {
namespace {

using test::Array, test::for_each_index, test::OpRow, test::run_rows;

/// a x b by NumPy's rules, element by element.
Array naive_matmul(Array a, Array b) {
  bool vector_a = a.shape.size() == 1, vector_b = b.shape.size() == 1;
  if (vector_a) a.shape.insert(0, 1);
  if (vector_b) b.shape.push_back(1);
  Shape batch = broadcast_shapes("naive", Shape(a.shape.begin(), a.shape.end() - 2),
                                 Shape(b.shape.begin(), b.shape.end() - 2));
  const int64_t k = a.shape.back();
  batch.push_back(a.shape[a.shape.size() - 2]);
  batch.push_back(b.shape.back());
  Array c(batch);
  for_each_index(c.shape, [&](const Dims& index) {
    Dims ia = index, ib = index;
    double sum = 0;
    for (int64_t l = 0; l < k; ++l) {
      ia[index.size() - 1] = l;
      ib[index.size() - 2] = l;
      sum += a.broadcast_at(ia) * b.broadcast_at(ib);
    }
    c.at(index) = sum;
  });
  if (vector_b) c.shape.erase(c.shape.size() - 1);
  if (vector_a) c.shape.erase(c.shape.size() - (vector_b ? 1 : 2));
  return c;
}

OpRow matmul_row(const char* name, Shape a, Shape b, std::vector<Shape> empty = {}) {
  OpRow row{name,
            {a, b},
            [](const std::vector<Tensor>& x) { return matmul(x[0], x[1]); },
            [](const std::vector<Array>& x) { return naive_matmul(x[0], x[1]); }};
  row.empty_shapes = std::move(empty);
  return row;
}

TEST_CASE("op table: matmul") {
  run_rows({
      matmul_row("matmul", {4, 3}, {3, 5}, {{4, 0}, {0, 5}}),
      matmul_row("matmul, no rows", {2, 3}, {3, 2}, {{0, 3}, {3, 2}}),
      matmul_row("matmul, no columns", {2, 3}, {3, 2}, {{2, 3}, {3, 0}}),
      matmul_row("matmul, inner size 1", {4, 1}, {1, 5}, {{4, 1}, {1, 0}}),
      matmul_row("matmul, batch", {2, 4, 3}, {2, 3, 2}),
      matmul_row("matmul, b shared", {2, 3, 4}, {4, 2}, {{0, 3, 4}, {4, 2}}),
      matmul_row("matmul, a shared", {3, 4}, {2, 4, 3}, {{3, 0}, {2, 0, 3}}),
      matmul_row("matmul, broadcast both ways", {2, 1, 3, 2}, {3, 2, 4}, {{0, 1, 3, 2}, {3, 2, 4}}),
      matmul_row("matmul, more axes of b", {2, 3, 2}, {3, 2, 2, 2}, {{2, 3, 2}, {0, 2, 2, 2}}),
      matmul_row("vector x matrix", {4}, {4, 3}, {{0}, {0, 3}}),
      matmul_row("matrix x vector", {4, 3}, {3}, {{0, 3}, {3}}),
      matmul_row("vector x vector", {5}, {5}),
      matmul_row("vector x batch", {3}, {2, 3, 4}, {{3}, {0, 3, 4}}),
      matmul_row("batch x vector", {2, 3, 4}, {4}, {{0, 3, 4}, {4}}),
  });
}

TEST_CASE("matmul: integers, errors") {
  Tensor a = tensor({1, 2, 3, 4, 5, 6}, {2, 3}, DType::i64);
  Tensor b = tensor({1, 0, 0, 1, 1, 1}, {3, 2}, DType::i64);
  CHECK(matmul(a, b).dtype() == DType::i64);
  CHECK(matmul(a, b).to_vector<int>() == std::vector<int>{4, 5, 10, 11});
  CHECK_THROWS_WITH_AS(matmul(zeros({2, 3}), zeros({4, 5})),
                       "matmul: inner sizes differ: (2, 3) x (4, 5)", Error);
  CHECK_THROWS_WITH_AS(
      matmul(zeros({2, 3}), zeros({4, 3})),
      "matmul: inner sizes differ: (2, 3) x (4, 3); did you mean matmul(a, transpose(b, 0, 1))?",
      Error);
  CHECK_THROWS_WITH_AS(matmul(zeros({2, 3}), zeros({3, 2}, DType::f64)),
                       doctest::Contains("f32 x f64"), Error);
  CHECK_THROWS_WITH_AS(matmul(zeros({}), zeros({3})), doctest::Contains("use mul"), Error);
  CHECK_THROWS_AS(matmul(zeros({2, 3, 4}), zeros({3, 4, 5})), Error);
}

// If both operands have stride 0 along a summed axis, the sum is one product times its size.
TEST_CASE("matmul: sums over an axis along which both operands have stride 0") {
  Rng rng(6);
  for (DType type : {DType::f32, DType::f64}) {
    Tensor token = randn({1, 1, 8}, rng, type), w = randn({3, 8}, rng, type).set_requires_grad();
    auto gradient = [&](const Tensor& x, Activation activation) {
      return grad({mean(linear(x, w, {}, {.activation = activation}))}, {w})[0];
    };
    for (Activation activation : {Activation::none, Activation::gelu})
      for (const Tensor& x : {expand(token, {16, 1, 8}), expand(token, {5, 7, 8}),
                              repeat_interleave(token, 16, 0), repeat(token, "1 t c -> 6 (t 2) c")})
        CHECK(all_close(gradient(x, activation), gradient(x.clone(), activation), 1e-5, 1e-6));
  }
}

// The product is computed once and scaled. Earlier terms of the gradient must not be scaled.
TEST_CASE("matmul: a repeated product is added to an existing gradient") {
  Rng rng(7);
  Tensor x = expand(randn({1, 4, 5}, rng, DType::f64), {6, 4, 5});
  Tensor w = randn({5, 3}, rng, DType::f64).set_requires_grad();
  auto gradient = [&](const Tensor& in) {
    w.set_grad({});
    for (int i = 0; i < 2; ++i) (sum(matmul(in, w)) + sum(matmul(in, w) * 2)).backward();
    return w.grad().clone();
  };
  CHECK(all_close(gradient(x), gradient(x.clone()), 1e-13));
}

// Products add their part directly to the gradient of a matrix that is used several times.
TEST_CASE("matmul: gradients add up in place") {
  Rng rng(1);
  for (bool second : {false, true}) {
    Tensor w = randn({5, 4}, rng, DType::f64).set_requires_grad();
    Tensor x = randn({3, 6, 5}, rng, DType::f64).set_requires_grad();
    for (int step = 0; step < 2; ++step) {
      Tensor y = matmul(matmul(x, w), transpose(w, 0, 1));
      Tensor loss = sum(y * y) + sum(matmul(x, w));
      if (second) {
        Tensor g = grad({loss}, {w}, {.create_graph = true})[0];
        sum(g * g).backward();
      } else {
        loss.backward();
      }
    }
    Tensor twice_w = w.grad().clone(), twice_x = x.grad().clone();
    w.set_grad({});
    x.set_grad({});
    auto fn = [&](const std::vector<Tensor>& in) {
      Tensor y = matmul(matmul(in[1], in[0]), transpose(in[0], 0, 1));
      return sum(y * y) + sum(matmul(in[1], in[0]));
    };
    CHECK_NOTHROW(gradcheck(fn, {w, x}));
    if (second) continue;
    std::vector<Tensor> once = grad({fn({w, x})}, {w, x});
    CHECK(all_close(twice_w, once[0] * 2, 1e-12));
    CHECK(all_close(twice_x, once[1] * 2, 1e-12));
  }
}

// The gradient by a transposed matrix has the memory order of the matrix itself.
TEST_CASE("matmul: the gradient by a transposed weight needs no copy") {
  Rng rng(2);
  Tensor w = randn({8, 6}, rng).set_requires_grad();
  Tensor x = randn({4, 6}, rng);
  sum(matmul(x, transpose(w, 0, 1))).backward();
  CHECK(w.grad().is_contiguous());
  CHECK(all_close(w.grad(), expand(sum(x, 0), {8, 6}), 1e-5));
}

TEST_CASE("matmul: same bits on any number of threads") {
  Rng rng(3);
  Tensor a = randn({6, 70, 90}, rng).set_requires_grad();
  Tensor b = randn({90, 110}, rng).set_requires_grad();
  test::check_threads({2, 4}, [&] { return test::value_and_gradients(matmul(a, b), {a, b}); });
}

double activate(Activation a, double v) {
  double s = 1 / (1 + std::exp(-v));
  switch (a) {
    case Activation::relu:
      return v > 0 ? v : 0;
    case Activation::gelu:
      return v * 0.5 * std::erfc(-v / std::sqrt(2.0));
    case Activation::gelu_tanh:
      return 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (v + 0.044715 * v * v * v)));
    case Activation::silu:
      return v * s;
    case Activation::tanh:
      return std::tanh(v);
    case Activation::sigmoid:
      return s;
    case Activation::none:
      return v;
  }
  fail_unhandled("Activation", a);
}

/// The inputs are x, w, then the bias and the residual if the row has them.
OpRow linear_row(const char* name, std::vector<Shape> shapes, Activation activation, bool bias,
                 bool residual, std::vector<Shape> empty = {}) {
  OpRow row{name, std::move(shapes), {}, {}};
  row.fn = [=](const std::vector<Tensor>& in) {
    LinearOptions options{activation, residual ? in.back() : Tensor()};
    return linear(in[0], in[1], bias ? in[2] : Tensor(), options);
  };
  row.naive = [=](const std::vector<Array>& in) {
    const Array &x = in[0], &w = in[1];
    Shape shape = x.shape;
    shape[shape.size() - 1] = w.shape[0];
    Array y(shape);
    for_each_index(shape, [&](const Dims& index) {
      double sum = bias ? in[2][index.back()] : 0;
      Dims at = index;
      for (int64_t l = 0; l < w.shape[1]; ++l) {
        at[at.size() - 1] = l;
        sum += x.at(at) * w.at({index.back(), l});
      }
      y.at(index) = activate(activation, sum) + (residual ? in.back().at(index) : 0);
    });
    return y;
  };
  row.low = -1.3;
  row.high = 1.1;
  row.empty_shapes = std::move(empty);
  return row;
}

TEST_CASE("op table: linear") {
  const Shape x{2, 3, 4}, w{5, 4}, b{5}, r{2, 3, 5};
  const Shape no_x{0, 3, 4}, no_r{0, 3, 5};
  std::vector<OpRow> rows = {
      linear_row("linear", {{3, 4}, {5, 4}}, Activation::none, false, false, {{0, 4}, {5, 4}}),
      linear_row("linear, no features", {x, w, b}, Activation::none, true, false,
                 {{2, 3, 0}, {5, 0}, b}),
      linear_row("linear, no outputs", {x, w, b}, Activation::gelu, true, false, {x, {0, 4}, {0}}),
      linear_row("linear of a vector", {{4}, {5, 4}, {5}, {5}}, Activation::silu, true, true,
                 {{0}, {5, 0}, {5}, {5}}),
  };
  for (auto activation :
       {Activation::none, Activation::relu, Activation::gelu, Activation::gelu_tanh,
        Activation::silu, Activation::tanh, Activation::sigmoid}) {
    rows.push_back(linear_row("linear, bias", {x, w, b}, activation, true, false, {no_x, w, b}));
    rows.push_back(
        linear_row("linear, residual", {x, w, r}, activation, false, true, {no_x, w, no_r}));
    rows.push_back(linear_row("linear, bias and residual", {x, w, b, r}, activation, true, true,
                              {no_x, w, b, no_r}));
  }
  for (OpRow& row : rows) row.name += " " + std::to_string(&row - rows.data());
  run_rows(rows);
}

TEST_CASE("linear: sizes with several panels, same bits on any number of threads") {
  Rng rng(4);
  const int64_t rows = 150, in = 140, out = 330;
  Tensor x = randn({2, rows / 2, in}, rng).set_requires_grad();
  Tensor w = uniform({out, in}, -0.1, 0.1, rng).set_requires_grad();
  Tensor b = randn({out}, rng).set_requires_grad();
  Tensor r = randn({2, rows / 2, out}, rng).set_requires_grad();
  for (auto activation : {Activation::none, Activation::gelu, Activation::tanh}) {
    const auto run = [&] {
      return test::value_and_gradients(linear(x, w, b, {activation, r}), {x, w, b, r});
    };
    test::check_threads({2, 4}, run);
    const std::vector<double> got = run();
    std::vector<double> xs = x.to_vector<double>(), ws = w.to_vector<double>();
    std::vector<double> bs = b.to_vector<double>(), rs = r.to_vector<double>();
    double worst = 0;
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < out; ++j) {
        double sum = bs[static_cast<size_t>(j)];
        for (int64_t l = 0; l < in; ++l)
          sum += xs[static_cast<size_t>(i * in + l)] * ws[static_cast<size_t>(j * in + l)];
        size_t at = static_cast<size_t>(i * out + j);
        double want = activate(activation, sum) + rs[at];
        worst = std::max(worst, std::abs(got[at] - want) / (1 + std::abs(want)));
      }
    CHECK(worst < 1.3e-6 * std::sqrt(static_cast<double>(in)));
  }
}

TEST_CASE("linear: errors") {
  Tensor x = zeros({2, 3}), w = zeros({5, 3}), b = zeros({5});
  CHECK_THROWS_WITH_AS(linear(x, zeros({5, 4})), doctest::Contains("the 4 features"), Error);
  CHECK_THROWS_WITH_AS(linear(x, w, zeros({3})), doctest::Contains("the bias must be (5,)"), Error);
  CHECK_THROWS_WITH_AS(linear(x, w, b, {.residual = zeros({2, 3})}),
                       doctest::Contains("output's shape (2, 5)"), Error);
  CHECK_THROWS_WITH_AS(linear(x, zeros({5, 3}, DType::f64)), doctest::Contains("the weight f64"),
                       Error);
}

// For gelu, backward needs the pre-activation; for relu only the output, which exists anyway.
TEST_CASE("linear: keeps no more than backward needs") {
  Rng rng(5);
  Tensor x = randn({64, 64}, rng), w = randn({64, 64}, rng).set_requires_grad();
  const int64_t one = 64 * 64 * 4;
  auto extra = [&](Activation a) {
    trim_memory();  // cached blocks may be larger than requested
    int64_t before = memory_stats().live;
    Tensor y = linear(x, w, {}, {.activation = a});
    return memory_stats().live - before;
  };
  CHECK(extra(Activation::none) == one);
  CHECK(extra(Activation::relu) == one);
  CHECK(extra(Activation::gelu) == 2 * one);
  NoGradGuard guard;
  CHECK(extra(Activation::gelu) == one);
}

}  // namespace
}  // namespace tern::ops_matmul
