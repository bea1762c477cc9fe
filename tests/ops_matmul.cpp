// matmul and linear.
#include <doctest/doctest.h>

#include "tern/core/autograd.h"
#include "tern/core/rng.h"
#include "tern/core/threads.h"
#include "tern/tests/op_table.h"

namespace tern {
namespace {

using test::Array;
using test::for_each_index;
using test::OpRow;
using test::run_rows;

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

// The gradient of a matrix used several times is gathered by the product itself.
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

// The gradient of a transposed matrix has the memory order of the matrix itself.
TEST_CASE("matmul: the gradient of a transposed weight needs no copy") {
  Rng rng(2);
  Tensor w = randn({8, 6}, rng).set_requires_grad();
  Tensor x = randn({4, 6}, rng);
  sum(matmul(x, transpose(w, 0, 1))).backward();
  CHECK(w.grad().is_contiguous());
  CHECK(all_close(w.grad(), expand(sum(x, 0), {8, 6}), 1e-5));
}

TEST_CASE("matmul: the same bits on any number of threads") {
  Rng rng(3);
  Tensor a = randn({6, 70, 90}, rng).set_requires_grad();
  Tensor b = randn({90, 110}, rng).set_requires_grad();
  const int before = num_threads();
  std::vector<std::vector<float>> results;
  for (int threads : {1, 2, 4}) {
    set_num_threads(threads);
    Tensor c = matmul(a, b);
    std::vector<Tensor> g = grad({sum(c * c)}, {a, b});
    std::vector<float> all = c.to_vector<float>();
    for (const Tensor& t : g)
      for (float v : t.to_vector<float>()) all.push_back(v);
    results.push_back(all);
  }
  set_num_threads(before);
  CHECK(results[1] == results[0]);
  CHECK(results[2] == results[0]);
}

}  // namespace
}  // namespace tern
