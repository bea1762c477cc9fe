// Notation taken from PyTorch: comparison operators, += in place, max(x, 1).indices, argmax(x),
// randn_like, optimizers on a list of parameters.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/nn/nn.h"
#include "tern/optim/adam.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_reading {
namespace {

using test::Doubles, test::i64, test::Ints, test::kNan, test::list, test::numbers;

TEST_CASE("operators: comparisons with tensors and numbers on either side") {
  Tensor x = tensor({-1, 0, 2, kNan}, {4}), y = tensor({0, 0, 1, kNan}, {4});
  CHECK(list(x > y) == Ints{0, 0, 1, 0});
  CHECK(list(x >= y) == Ints{0, 1, 1, 0});
  CHECK(list(x < y) == Ints{1, 0, 0, 0});
  CHECK(list(x <= y) == Ints{1, 1, 0, 0});
  CHECK(list(x == y) == Ints{0, 1, 0, 0});
  CHECK(list(x != y) == Ints{1, 0, 1, 1});
  CHECK(list(x > 0) == list(0 < x));
  CHECK(list(x >= 0) == Ints{0, 1, 1, 0});
  CHECK(list(0 >= x) == Ints{1, 1, 0, 0});
  CHECK(list(x < 0.5) == list(0.5 > x));
  CHECK(list(0 <= x) == list(x >= 0));
  CHECK(list(x <= 0) == list(0 >= x));
  CHECK(list(x == 2) == list(2 == x));
  CHECK(list(x != 2) == list(2 != x));
  CHECK(list((x > -2) & (x < 1)) == Ints{1, 1, 0, 0});
  CHECK(list((x > 1) | (x < 0)) == Ints{1, 0, 1, 0});
  CHECK(list((x >= 0) ^ (x < 1)) == Ints{1, 0, 1, 0});
  CHECK((x > 0).dtype() == DType::u8);
  CHECK((unsqueeze(x, 1) > y).shape() == Shape{4, 4});
  CHECK(list(tensor({1, 2}, {2}, DType::u8) > 300) == Ints{0, 0});
  CHECK((zeros({0, 3}) > 1).shape() == Shape{0, 3});
  CHECK_FALSE((x.clone().set_requires_grad() > 0).requires_grad());
  CHECK_THROWS_WITH_AS(list(x > y.to(DType::f64)), doctest::Contains("gt: mixes f32 and f64"),
                       Error);
}

TEST_CASE("operators: +=, -=, *= and /= write in place, through views and handles") {
  for (DType type : {DType::f32, DType::f64, DType::i64, DType::u8}) {
    Tensor x = tensor({8, 6, 4, 2}, {2, 2}, type), handle = x;
    Tensor step = tensor({1, 2}, {2}, type);
    x += step;
    CHECK(numbers(handle) == Doubles{9, 8, 5, 4});
    x -= 1;
    CHECK(numbers(handle) == Doubles{8, 7, 4, 3});
    x[1] *= step;
    CHECK(numbers(handle) == Doubles{8, 7, 4, 6});
    transpose(x, 0, 1) += step;
    CHECK(numbers(handle) == Doubles{9, 8, 6, 8});
    x += transpose(x, 0, 1);
    CHECK(numbers(handle) == Doubles{18, 14, 14, 16});
    x *= 2;
    CHECK(((x += 1) - 1).dtype() == type);
    if (is_float(type)) {
      x /= tensor({4, 2}, {2}, type);
      CHECK(numbers(handle) == Doubles{9.25, 14.5, 7.25, 16.5});
      x /= 2;
      CHECK(numbers(handle) == Doubles{4.625, 7.25, 3.625, 8.25});
    } else {
      CHECK_THROWS_WITH_AS(x /= 2, doctest::Contains("operator/=: the quotient is f32"), Error);
      CHECK_THROWS_WITH_AS(x += 0.5, doctest::Contains("operator+=: the sum of"), Error);
    }
    CHECK(x.ref() == handle.ref());
  }
  Tensor x = ones({2}), low = tensor({0, 3}, {2}, DType::u8);
  low -= 1;
  CHECK(list(low) == Ints{255, 2});
  CHECK_NOTHROW(x += i64({1, 2}));
  CHECK_THROWS_WITH_AS(x += ones({2}, DType::f64), doctest::Contains("operator+=: mixes"), Error);
  CHECK_THROWS_WITH_AS(x += ones({3, 2}), doctest::Contains("operator+="), Error);
  CHECK_THROWS_WITH_AS(expand(x, {3, 2}) += 1, doctest::Contains("share memory"), Error);
  CHECK_THROWS_WITH_AS(x += Tensor(), doctest::Contains("operator+=: operand 2"), Error);
}

TEST_CASE("operators: += on a tensor with a history is an error that says what to write") {
  Tensor p = ones({2}).set_requires_grad(), h = p * 2, plain = zeros({2});
  CHECK_THROWS_WITH_AS(p += 1, doctest::Contains("operator+=: works in place"), Error);
  CHECK_THROWS_WITH_AS(h -= plain, doctest::Contains("write x = x - y"), Error);
  CHECK_THROWS_WITH_AS(plain *= h, doctest::Contains("the operand of shape (2,)"), Error);
  CHECK_THROWS_WITH_AS(h /= 2, doctest::Contains("write x = x / y"), Error);
  CHECK_THROWS_WITH_AS(p.detach() += 1, doctest::Contains("NoGradGuard"), Error);
  CHECK(numbers(plain) == Doubles{0, 0});
  {
    NoGradGuard guard;
    p += 1;
    plain += h;
  }
  CHECK(numbers(p) == Doubles{2, 2});
  CHECK(numbers(plain) == Doubles{2, 2});
  // Backward finds a saved tensor that was written to.
  Tensor q = ones({2}).set_requires_grad(), factor = ones({2}), y = q * factor;
  factor += 1;
  CHECK_THROWS_WITH_AS(backward(sum(y)), doctest::Contains("written in place"), Error);
}

TEST_CASE("max and min along an axis: values, indices and PyTorch's gradients") {
  Tensor x = tensor({1, 3, 3, 5, kNan, 6}, {2, 3}, DType::f64).set_requires_grad();
  ValuesIndices best = max(x, 1);
  CHECK(list(best.indices) == Ints{1, 1});
  CHECK(best.values[0].item() == 3);
  CHECK(std::isnan(best.values[1].item()));
  backward(sum(best.values));
  CHECK(numbers(x.grad()) == Doubles{0, 1, 0, 0, 1, 0});  // the first maximum gets all
  CHECK(max(x, -1, true).indices.shape() == Shape{2, 1});
  CHECK(list(min(x, 0).indices) == Ints{0, 1, 0});
  ValuesIndices least = min(i64({4, 2, 2}), 0);
  CHECK(least.values.item<int64_t>() == 2);
  CHECK(least.indices.item<int64_t>() == 1);
  CHECK(max(scalar(3), 0).values.item() == 3);
  CHECK(amin(i64({4, 2}), 0).item<int64_t>() == 2);
  CHECK(max(zeros({0, 3}), 1).values.shape() == Shape{0});
  CHECK_THROWS_WITH_AS(max(zeros({0, 3}), 0), doctest::Contains("max: axis 0"), Error);
  CHECK_THROWS_WITH_AS(min(zeros({3}), 1), doctest::Contains("min: axis 1"), Error);
}

TEST_CASE("op table: max and min along an axis") {
  using test::Array;
  auto naive = [](bool largest) {
    return [largest](const std::vector<Array>& in) {
      Array y(Shape{in[0].shape[0]});
      for (int64_t i = 0; i < y.numel(); ++i) {
        y[i] = in[0].at({i, 0});
        for (int64_t j = 1; j < in[0].shape[1]; ++j) {
          const double v = in[0].at({i, j});
          y[i] = largest ? std::max(y[i], v) : std::min(y[i], v);
        }
      }
      return y;
    };
  };
  std::vector<test::OpRow> rows = {
      {"max with indices",
       {{3, 5}},
       [](const std::vector<Tensor>& x) { return max(x[0], -1).values; },
       naive(true)},
      {"min with indices",
       {{3, 5}},
       [](const std::vector<Tensor>& x) { return min(x[0], 1).values; },
       naive(false)},
  };
  for (test::OpRow& r : rows) r.skip_expanded = true;
  test::run_rows(rows);
}

TEST_CASE("argmax without an axis counts row by row") {
  Tensor x = tensor({1, 7, 3, 7, 2, 0}, {2, 3});
  CHECK(argmax(x).item<int64_t>() == 1);
  CHECK(argmax(transpose(x, 0, 1)).item<int64_t>() == 1);
  CHECK(argmax(flip(x, {0, 1})).item<int64_t>() == 2);
  CHECK(argmin(x, {}, true).shape() == Shape{1, 1});
  CHECK(argmin(x).item<int64_t>() == 5);
  CHECK(argmax(scalar(3)).shape() == Shape{});
  CHECK_THROWS_WITH_AS(argmax(zeros({0, 2})), doctest::Contains("argmax: "), Error);
}

TEST_CASE("randn_like and rand_like: shape, type, and the generator's numbers") {
  for (DType type : {DType::f32, DType::f64}) {
    Rng a(3), b(3);
    Tensor x = transpose(zeros({3, 500}, type), 0, 1);
    CHECK(numbers(randn_like(x, a)) == numbers(randn({500, 3}, b, type)));
    Tensor u = rand_like(x, a);
    CHECK(numbers(u) == numbers(uniform({500, 3}, 0, 1, b, type)));
    CHECK(u.dtype() == type);
    CHECK(amin(u).item() >= 0);
    CHECK(amax(u).item() < 1);
  }
  Rng rng(1);
  CHECK_THROWS_WITH_AS(rand_like(arange(0, 3), rng), doctest::Contains("floating"), Error);
}

TEST_CASE("optimizers take parameters without names") {
  Rng a(5), b(5), data(6);
  nn::Linear one(3, 2, a), two(3, 2, b);
  auto plain = optim::AdamW(nn::parameters(one));
  optim::AdamW named(nn::named_parameters(two), {});
  Tensor x = randn({4, 3}, data);
  for (int i = 0; i < 3; ++i) {
    backward(sum(square(one(x))));
    backward(sum(square(two(x))));
    plain.step();
    named.step();
    plain.zero_grad();
    named.zero_grad();
  }
  CHECK(numbers(one.weight) == numbers(two.weight));
  CHECK(plain.state_dict()[0].first.starts_with("0."));
}

}  // namespace
}  // namespace tern::test_reading
