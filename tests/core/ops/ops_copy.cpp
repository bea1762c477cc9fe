// Creation of tensors, copies between layouts, conversions of type, and in-place writes.
#include <doctest/doctest.h>

#include <cmath>
#include <set>

#include "tern/core/base/rng.h"
#include "tern/core/ops/convolution/padding.h"
#include "tern/core/ops/convolution/pooling.h"
#include "tern/core/ops/statistics/statistics.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"

namespace tern::ops_copy {
namespace {

using test::Array, test::for_each_index, test::kInf;

// A view of the elements of x with the given strides.
Tensor seen(const Tensor& x, const Shape& shape, const Strides& strides, int64_t offset = 0) {
  return not_differentiable(Fresh::view(x, {shape, strides, offset}));
}

Tensor counting(const Shape& shape, DType dtype = DType::f32) {
  Tensor t = arange(0, numel(shape), 1, dtype);
  return seen(t, shape, contiguous_strides(shape));
}

// The expected result of to_vector, read element by element.
std::vector<double> elements(const Tensor& x) {
  std::vector<double> out;
  dispatch(x.dtype(), [&]<class T>() {
    for_each_index(x.shape(), [&](const Dims& index) {
      int64_t p = 0;
      for (int a = 0; a < index.size(); ++a) p += index[a] * x.strides()[a];
      out.push_back(static_cast<double>(x.data<T>()[p]));
    });
  });
  return out;
}

TEST_CASE("creation: values and types") {
  CHECK(full({2, 3}, 1.5).to_vector<double>() == std::vector<double>(6, 1.5));
  CHECK(zeros({3}, DType::i64).to_vector<int>() == std::vector<int>{0, 0, 0});
  CHECK(ones({2}, DType::u8).to_vector<int>() == std::vector<int>{1, 1});
  CHECK(empty({0, 4}).numel() == 0);
  CHECK(scalar(-kInf).item() == -kInf);
  CHECK(scalar(INT64_MAX, DType::i64).item<int64_t>() == INT64_MAX);
  CHECK(scalar(2.9, DType::i64).item<int64_t>() == 2);
  CHECK(tensor({1, 2, 3, 4}, {2, 2}).shape() == Shape{2, 2});
  CHECK(tensor({1, 2}, {2}, DType::i64).dtype() == DType::i64);
  CHECK(zeros_like(scalar(3)).shape() == Shape{});
  CHECK(ones_like(counting({2, 2}, DType::f64)).dtype() == DType::f64);
  CHECK_THROWS_WITH_AS(tensor({1, 2, 3}, {2, 2}), doctest::Contains("3 values"), Error);
}

TEST_CASE("creation: full_like and new_full use the type of a tensor with any layout") {
  for (DType type : {DType::f32, DType::f64, DType::i64, DType::u8}) {
    Tensor x = expand(transpose(counting({2, 3}, type), 0, 1), {4, 3, 2});
    Tensor like = full_like(x, 7), other = new_full(x, {5, 0}, 7), number = new_full(x, {}, 7);
    CHECK(like.shape() == x.shape());
    CHECK(like.is_contiguous());
    CHECK(like.to_vector<int>() == std::vector<int>(24, 7));
    CHECK(other.shape() == Shape{5, 0});
    CHECK(number.item() == 7);
    for (const Tensor& t : {like, other, number}) CHECK(t.dtype() == type);
  }
  CHECK(full_like(zeros({0, 3}), 1).shape() == Shape{0, 3});
  CHECK(full_like(zeros({1}, DType::f64), 0.1).item() == 0.1);
  CHECK_FALSE(full_like(zeros({1}).set_requires_grad(), 1).requires_grad());
  CHECK_THROWS_WITH_AS(full_like(zeros({1}, DType::u8), 256), doctest::Contains("full: 256"),
                       Error);
  CHECK_THROWS_WITH_AS(new_full(zeros({1}, DType::i64), {2}, 1e30), doctest::Contains("full: "),
                       Error);
  CHECK_THROWS_WITH_AS(full_like(Tensor(), 1), doctest::Contains("full_like"), Error);
  CHECK_THROWS_WITH_AS(new_full(Tensor(), {1}, 1), doctest::Contains("new_full"), Error);
}

TEST_CASE("creation: arange, linspace, eye, one_hot as in PyTorch") {
  CHECK(arange(5, 0, -2).to_vector<int>() == std::vector<int>{5, 3, 1});
  CHECK(arange(3, 3).numel() == 0);
  CHECK(arange(3, 0).numel() == 0);
  CHECK(arange(0, 1, 0.25, DType::f64).to_vector<double>() == std::vector<double>{0, .25, .5, .75});
  CHECK_THROWS_WITH_AS(arange(0, 1, 0.5), doctest::Contains("DType::f32"), Error);
  CHECK_THROWS_AS(arange(0, 1, 0), Error);
  CHECK(arange(0.0, 3.0, 1.0, DType::i64).to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2});
  CHECK(arange(0.0, -1.0, 1.0, DType::i64).numel() == 0);
  CHECK_THROWS_WITH_AS(arange(0., 300., 1., DType::u8), doctest::Contains("299 does not fit u8"),
                       Error);
  CHECK_THROWS_WITH_AS(arange(0., 1e300, 1., DType::i64),
                       doctest::Contains("not an integer that fits i64"), Error);
  CHECK(linspace(0, 1, 5).to_vector<double>() == std::vector<double>{0, .25, .5, .75, 1});
  CHECK(linspace(3, 9, 1).to_vector<double>() == std::vector<double>{3});
  CHECK(linspace(0, .1, 1000, DType::f64).to_vector<double>().back() == .1);
  CHECK(eye(2, 3).to_vector<int>() == std::vector<int>{1, 0, 0, 0, 1, 0});
  CHECK(eye(2).shape() == Shape{2, 2});
  Tensor hot = one_hot(tensor({2, 0}, {2, 1}, DType::i64), 3);
  CHECK(hot.shape() == Shape{2, 1, 3});
  CHECK(hot.to_vector<int>() == std::vector<int>{0, 0, 1, 1, 0, 0});
  CHECK_THROWS_WITH_AS(one_hot(tensor({0, 3}, {2}, DType::i64), 3),
                       doctest::Contains("element 1 is 3"), Error);
}

TEST_CASE("creation: random tensors") {
  Rng rng(1), again(1);
  Tensor x = randn({100, 100}, rng, DType::f64);
  CHECK(x.to_vector<double>() == randn({100, 100}, again, DType::f64).to_vector<double>());
  double sum = 0, squares = 0;
  for (double v : x.to_vector<double>()) sum += v, squares += v * v;
  CHECK(std::abs(sum / 1e4) < 0.05);  // 5 standard errors
  CHECK(std::abs(squares / 1e4 - 1) < 0.08);
  for (double v : uniform({1000}, -3, 5, rng).to_vector<double>()) CHECK((v >= -3 && v < 5));
  double ones = 0;
  for (double v : bernoulli({10000}, 0.3, rng).to_vector<double>()) ones += v;
  CHECK(std::abs(ones - 3000) < 230);
  std::set<int64_t> drawn;
  for (int64_t v : randint(-2, 3, {500}, rng).to_vector<int64_t>()) drawn.insert(v);
  CHECK(drawn == std::set<int64_t>{-2, -1, 0, 1, 2});
  std::vector<int64_t> order = randperm(50, rng).to_vector<int64_t>();
  CHECK(std::set<int64_t>(order.begin(), order.end()).size() == 50);
  CHECK(order != arange(0, 50).to_vector<int64_t>());
  CHECK(randperm(0, rng).numel() == 0);
}

TEST_CASE("copy: to_vector gives the elements of any layout in order") {
  for (DType t : {DType::f32, DType::f64, DType::i64, DType::u8}) {
    CAPTURE(t == DType::f32 ? "f32" : "other");
    Tensor x = counting({5, 7, 6}, t);
    for (const Tensor& v : {
             x, seen(x, {6, 7, 5}, {1, 6, 42}),      // axes in reverse order
             seen(x, {5, 6, 7}, {42, 1, 6}),         // last two axes swapped
             seen(x, {5, 4, 3}, {42, -12, -2}, 40),  // negative steps
             seen(x, {3, 5, 4}, {0, 42, 0}, 2),      // repeated
             seen(x, {0, 6}, {6, 1}),                // empty
             seen(x, {}, {}, 9),                     // no axes
             seen(x, {1, 7, 1, 6}, {99, 1, -3, 7}),  // axes of size 1 with any stride
         }) {
      Tensor c = v.clone();
      CHECK(c.is_contiguous());
      CHECK(c.to_vector<double>() == elements(v));
      for (DType to : {DType::f32, DType::f64, DType::i64, DType::u8})
        CHECK(v.to(to).to_vector<double>() == elements(v));
    }
  }
}

TEST_CASE("copy: large transposes") {
  Tensor x = counting({130, 3, 257});
  Tensor turned = seen(x, {257, 3, 130}, {1, 257, 771});
  CHECK(turned.contiguous().to_vector<double>() == elements(turned));
  NoGradGuard guard;
  Tensor y = zeros({130, 3, 257});
  Tensor y_turned = seen(y, {257, 3, 130}, {1, 257, 771});
  copy_(y_turned, turned.clone());
  CHECK(y.to_vector<double>() == x.to_vector<double>());
  Tensor back = seen(x, {257, 130}, {-1, 771}, 256);
  CHECK(back.contiguous().to_vector<double>() == elements(back));
}

TEST_CASE("copy: conversions have a defined result for every number") {
  Tensor x = tensor({NAN, kInf, -kInf, 1e30, -1.9, 3.9, 300, -1}, {8}, DType::f64);
  std::vector<int64_t> i = x.to(DType::i64).to_vector<int64_t>();
  CHECK(i == std::vector<int64_t>{INT64_MIN, INT64_MIN, INT64_MIN, INT64_MIN, -1, 3, 300, -1});
  std::vector<int> u = x.to(DType::u8).to_vector<int>();
  CHECK(u == std::vector<int>{0, 0, 0, 0, 255, 3, 44, 255});
  CHECK(scalar(-1, DType::i64).to(DType::u8).item<int>() == 255);
  CHECK(std::isnan(x.to(DType::f32).to_vector<float>()[0]));
  Tensor f = tensor({1, 2}, {2});
  CHECK(f.to(DType::f32).ref() == f.ref());
  CHECK(cast(f, DType::f32).ref()->storage != f.ref()->storage);
}

TEST_CASE("in place: copy_, fill_, add_, mul_ through any layout") {
  NoGradGuard guard;
  Tensor x = zeros({3, 4});
  copy_(seen(x, {4, 3}, {1, 4}), tensor({1, 2, 3}, {3}, DType::i64));
  CHECK(x.to_vector<int>() == std::vector<int>{1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  fill_(seen(x, {3, 2}, {4, 2}), -1);
  CHECK(x.to_vector<int>() == std::vector<int>{-1, 1, -1, 1, -1, 2, -1, 2, -1, 3, -1, 3});
  add_(seen(x, {3, 2}, {4, 2}), tensor({1, 2}, {2}, DType::u8), 2);
  CHECK(x.to_vector<int>() == std::vector<int>{1, 1, 3, 1, 1, 2, 3, 2, 1, 3, 3, 3});
  add_(x, x);
  mul_(x, 0.5);
  mul_(x, x);
  CHECK(x.to_vector<int>() == std::vector<int>{1, 1, 9, 1, 1, 4, 9, 4, 1, 9, 9, 9});
  zero_(x);
  CHECK(x.to_vector<int>() == std::vector<int>(12, 0));
  Tensor n = tensor({250, 7}, {2}, DType::u8);
  add_(n, n, 3);
  CHECK(n.to_vector<int>() == std::vector<int>{1000 % 256, 28});
}

TEST_CASE("in place: overlapping sources are read before they are overwritten") {
  NoGradGuard guard;
  Tensor x = counting({6});
  copy_(seen(x, {5}, {1}, 1), seen(x, {5}, {1}));
  CHECK(x.to_vector<int>() == std::vector<int>{0, 0, 1, 2, 3, 4});
  Tensor m = counting({2, 2});
  copy_(m, seen(m, {2, 2}, {1, 2}));
  CHECK(m.to_vector<int>() == std::vector<int>{0, 2, 1, 3});
  add_(m, seen(m, {2, 2}, {1, 2}));
  CHECK(m.to_vector<int>() == std::vector<int>{0, 3, 3, 6});
}

TEST_CASE("in place: a result that equals its operand has memory of its own") {
  const Tensor x = counting({1, 2, 3});
  for (const Tensor& y :
       {prod(x, 0, true), prod(x[0][0][0]), repeat_interleave(x, 1, 0), repeat_interleave(x, 3, 0),
        adaptive_avg_pool1d(x, 3), pad(x, {0, 0}, PaddingMode::reflect),
        pad(x, {-1, 0}, PaddingMode::circular), diff(x, 0)}) {
    y += 1;
    CHECK(x.to_vector<int>() == std::vector<int>{0, 1, 2, 3, 4, 5});
  }
}

TEST_CASE("in place: refused arguments") {
  Tensor x = zeros({3}), i = zeros({3}, DType::i64);
  CHECK_THROWS_WITH_AS(fill_(seen(x, {3, 2}, {1, 0}), 1), doctest::Contains("share memory"), Error);
  CHECK_THROWS_WITH_AS(copy_(x, zeros({2})), doctest::Contains("copy_"), Error);
  CHECK_THROWS_WITH_AS(add_(x, zeros({3}, DType::f64)), doctest::Contains("add_: mixes"), Error);
  CHECK_THROWS_WITH_AS(add_(i, x), doctest::Contains("does not fit"), Error);
  CHECK_THROWS_WITH_AS(add_(i, i, 0.5), doctest::Contains("alpha"), Error);
  uint64_t version = x.ref()->storage->version();
  zero_(x);
  CHECK(x.ref()->storage->version() == version + 1);
}

TEST_CASE("op table: copies") {
  auto same = [](const std::vector<Array>& x) { return x[0]; };
  test::run_rows({
      {"clone", {{3, 4}}, [](const auto& x) { return clone(x[0]); }, same},
      {"contiguous", {{3, 4}}, [](const auto& x) { return x[0].contiguous(); }, same},
      {"cast", {{3, 4}}, [](const auto& x) { return cast(x[0], x[0].dtype()); }, same},
  });
}

}  // namespace
}  // namespace tern::ops_copy
