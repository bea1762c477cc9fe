// Nested lists as tensors and slices of several axes, written like in Python; amax against max; and
// pad_sequence.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/convolution/padding.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"

namespace tern::test_literals {
namespace {

using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

Ints ints(const Tensor& t) { return t.to_vector<int64_t>(); }
Numbers numbers(const Tensor& t) { return t.to_vector<double>(); }

// A tensor with elements 100 i + 10 j + k.
Tensor coded(int64_t a, int64_t b, int64_t c) {
  Ints values;
  for (int64_t i = 0; i < a; ++i)
    for (int64_t j = 0; j < b; ++j)
      for (int64_t k = 0; k < c; ++k) values.push_back(100 * i + 10 * j + k);
  return tensor(values, {a, b, c});
}

}  // namespace

TEST_CASE("tensor: nested lists; the numbers choose the type as in PyTorch") {
  const Tensor x = tensor({{1, 2, 3}, {4, 5, 6}});
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.dtype() == DType::i64);
  CHECK(ints(x) == Ints{1, 2, 3, 4, 5, 6});
  CHECK(tensor({1, 2, 3}).dtype() == DType::i64);
  CHECK(tensor({1, 2, 3}).shape() == Shape{3});
  CHECK(tensor({7}).shape() == Shape{1});
  CHECK(tensor({1.5, 2.0}).dtype() == DType::f32);
  CHECK(numbers(tensor({{1, 2.5}})) == Numbers{1, 2.5});
  CHECK(tensor({{1, 2.5}}).dtype() == DType::f32);
  CHECK(tensor({true, false}).dtype() == DType::u8);
  CHECK(tensor({{{1}, {2}}, {{3}, {4}}}).shape() == Shape{2, 2, 1});
  CHECK(tensor({{}, {}}).shape() == Shape{2, 0});
  CHECK(tensor({}).shape() == Shape{0});
  CHECK(tensor({}).dtype() == DType::f32);
  // Other integer types and variables. i64 is exact beyond 2^53.
  const int64_t large = (int64_t{1} << 62) + 1;
  const size_t n = 3;
  CHECK(ints(tensor({large, int64_t{2}})) == Ints{large, 2});
  CHECK(ints(tensor({n, size_t{4}})) == Ints{3, 4});
}

TEST_CASE("tensor: vectors of every type of numbers") {
  CHECK(ints(tensor(std::vector<long long>{1, 2})) == Ints{1, 2});
  CHECK(ints(tensor(std::vector<unsigned>{1, 4'000'000'000}, {2, 1})) == Ints{1, 4'000'000'000});
  CHECK(ints(tensor(std::vector<short>{-1})) == Ints{-1});
  CHECK(ints(tensor(std::vector<size_t>{3})) == Ints{3});
  CHECK_THROWS_WITH_AS(tensor(std::vector<size_t>{SIZE_MAX}), doctest::Contains("does not fit i64"),
                       Error);
  CHECK(tensor(std::vector<bool>{true, false}).dtype() == DType::u8);
  CHECK(ints(tensor(std::vector<bool>{true, false})) == Ints{1, 0});
}

TEST_CASE("scalars: unsigned numbers beyond i64 keep their sign and value") {
  const uint64_t top = uint64_t{1} << 63;
  CHECK((ones({1}) * top).item() == 0x1p63);
  CHECK(ints(arange(2) < top) == Ints{1, 1});
  CHECK_THROWS_AS(full({1}, top, DType::i64), Error);
  CHECK((arange(2) + (top - 1)).dtype() == DType::i64);
}

TEST_CASE("item: an integer type that cannot hold the value is an error") {
  CHECK_THROWS_WITH_AS(scalar(3e9, DType::f64).item<int>(), doctest::Contains("3000000000"), Error);
  CHECK_THROWS_AS(scalar(NAN).item<int64_t>(), Error);
  CHECK_THROWS_AS(scalar(0x1p63).item<int64_t>(), Error);
  CHECK_THROWS_AS(scalar(-1, DType::i64).item<size_t>(), Error);
  CHECK_THROWS_AS(scalar(256, DType::i64).item<uint8_t>(), Error);
  CHECK(scalar(-0x1p63).item<int64_t>() == INT64_MIN);
  CHECK(scalar(-2.75).item<int>() == -2);
  CHECK(scalar(-0.5).item<uint8_t>() == 0);
  CHECK(scalar(255, DType::u8).item<int>() == 255);
  CHECK_THROWS_AS(scalar(200, DType::u8).item<int8_t>(), Error);
  CHECK(scalar(INT64_MAX, DType::i64).item<int64_t>() == INT64_MAX);
  CHECK(scalar(INT64_MAX, DType::i64).item<long long>() == INT64_MAX);
  CHECK(scalar(2.5).item<bool>());
}

TEST_CASE("tensor: nested lists in a requested type") {
  CHECK(tensor({{1, 2}, {3, 4}}, DType::f64).dtype() == DType::f64);
  CHECK(numbers(tensor({0.1}, DType::f64)) == Numbers{0.1});
  CHECK(ints(tensor({0, 1, 255}, DType::u8)) == Ints{0, 1, 255});
  CHECK_THROWS_WITH_AS(tensor({256}, DType::u8), doctest::Contains("does not fit u8"), Error);
  CHECK(tensor({1, 2, 3}, DType::f32).dtype() == DType::f32);
}

TEST_CASE("tensor: lists of different lengths are refused") {
  const auto says = doctest::Contains("has the shape (2,), another (3,)");
  CHECK_THROWS_WITH_AS(tensor({{1, 2}, {3, 4, 5}}), says, Error);
  CHECK_THROWS_WITH_AS(tensor({{1}, {{2}}}), doctest::Contains("(1, 1)"), Error);
  CHECK_THROWS_AS(tensor({{{1, 2}, {3}}, {{1}, {2}}}), Error);
}

TEST_CASE("tensor: a shape after the list") {
  CHECK(tensor({1, 2, 3, 4}, {2, 2}).dtype() == DType::f32);
  CHECK(tensor({7}, {}).shape() == Shape{});
  CHECK(tensor({}, {0}).shape() == Shape{0});
  CHECK(tensor({1, 2}, {2}, DType::i64).dtype() == DType::i64);
}

TEST_CASE("slice of several axes: ranges, indices, whole axes") {
  const Tensor x = coded(3, 4, 5);
  CHECK(slice(x, {{}, {1, 3}, 2}).shape() == Shape{3, 2});
  CHECK(ints(slice(x, {{}, {1, 3}, 2})) == Ints{12, 22, 112, 122, 212, 222});
  CHECK(ints(slice(x, {-1, -1, {3, {}}})) == Ints{233, 234});
  CHECK(ints(slice(x, {0, {{}, -2}, {4}})) == Ints{4, 14});
  CHECK(ints(slice(x, {1, {{}, {}, -2}, 0})) == Ints{130, 110});
  CHECK(ints(slice(x, {{{}, {}, 2}, 0, 0})) == Ints{0, 200});
  CHECK(slice(x, {{1, 1}}).shape() == Shape{0, 4, 5});
  CHECK(slice(x, {{}, {2, 100}}).shape() == Shape{3, 2, 5});
  CHECK(slice(x, {2}).shape() == Shape{4, 5});
  CHECK(slice(x, {0, 1, 2}).shape() == Shape{});
  CHECK(slice(x, {0, 1, 2}).item<int64_t>() == 12);
  CHECK(slice(x, {}).shape() == x.shape());
  const size_t n = 2;
  const std::vector<AxisSlice> chosen = {AxisSlice(), {n, n + 1}};  // chosen at run time
  CHECK(slice(x, chosen).shape() == Shape{3, 1, 5});
  CHECK(slice(x, {1, {}, {2, 4}}).ref()->storage == x.ref()->storage);
}

TEST_CASE("slice of several axes: errors name the axis and the shape") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(slice(x, {{}, 3}),
                       "slice: index 3 is out of range for axis 1 of shape (2, 3)", Error);
  CHECK_THROWS_WITH_AS(slice(x, {-3}), doctest::Contains("index -3"), Error);
  CHECK_THROWS_WITH_AS(slice(x, {{}, {}, {}}), "slice: 3 entries for the 2 axes of shape (2, 3)",
                       Error);
  CHECK_THROWS_WITH_AS(slice(x, {{0, 1, 0}}), doctest::Contains("step"), Error);
  CHECK_THROWS_WITH_AS(slice(Tensor(), {0}), doctest::Contains("operand 1"), Error);
}

TEST_CASE("slice of several axes: can be assigned to") {
  const Tensor x = zeros({3, 4});
  slice(x, {{}, {1, 3}}) = 1;
  CHECK(numbers(x) == Numbers{0, 1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0});
  slice(x, {1, {{}, {}, 3}}) = tensor({7, 8});
  CHECK(numbers(x[1]) == Numbers{7, 1, 1, 8});
  slice(x, {-1, 0}) += 5;
  CHECK(numbers(x[2]) == Numbers{5, 1, 1, 0});
  slice(x, {}) = 2;
  CHECK(numbers(x) == Numbers(12, 2));
}

TEST_CASE("amax and amin reduce axes, max and min reduce all or give indices") {
  const Tensor x = tensor({{1., 5., 5.}, {-2., 0., -2.}}).set_requires_grad();
  CHECK(numbers(amax(x, {1})) == Numbers{5, 0});
  CHECK(numbers(amin(x, 0)) == Numbers{-2, 0, -2});
  CHECK(amax(x, {0, 1}, true).shape() == Shape{1, 1});
  CHECK(amax(x).item() == 5);
  CHECK(max(x).item() == 5);
  CHECK(min(x).item() == -2);
  CHECK(ints(max(x, 1).indices) == Ints{1, 1});
  // Equal elements share the gradient.
  CHECK(numbers(grad({sum(amax(x, {1}))}, {x})[0]) == Numbers{0, .5, .5, 0, 1, 0});
  CHECK(numbers(grad({min(x)}, {x})[0]) == Numbers{0, 0, 0, .5, 0, .5});
  CHECK_THROWS_WITH_AS(amin(zeros({0, 2}), 0), doctest::Contains("amin: no elements"), Error);
}

TEST_CASE("pad_sequence: pads to the longest sequence; gradients reach the sequences") {
  const Tensor a = tensor({{1., 2.}, {3., 4.}, {5., 6.}}).set_requires_grad();
  const Tensor b = tensor({{7., 8.}}).set_requires_grad(), none = zeros({0, 2});
  const Tensor y = pad_sequence({a, b, none}, -1);
  CHECK(y.shape() == Shape{3, 3, 2});
  CHECK(numbers(y) == Numbers{1, 2, 3, 4, 5, 6, 7, 8, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1});
  backward(sum(y * y));
  CHECK(numbers(a.grad()) == Numbers{2, 4, 6, 8, 10, 12});
  CHECK(numbers(b.grad()) == Numbers{14, 16});
  CHECK(ints(pad_sequence({tensor({1, 2}), tensor({3})})) == Ints{1, 2, 3, 0});
  CHECK(pad_sequence({tensor({1, 2}), tensor({3})}).dtype() == DType::i64);
  CHECK(pad_sequence({zeros({0}), zeros({0})}).shape() == Shape{2, 0});
}

TEST_CASE("pad_sequence: sequences that do not fit are refused") {
  CHECK_THROWS_WITH_AS(pad_sequence({}), doctest::Contains("at least one"), Error);
  CHECK_THROWS_WITH_AS(pad_sequence({scalar(1)}), doctest::Contains("at least one axis"), Error);
  CHECK_THROWS_WITH_AS(pad_sequence({zeros({2, 3}), zeros({2, 4})}),
                       doctest::Contains("f32 (2, 3) and f32 (2, 4)"), Error);
  CHECK_THROWS_WITH_AS(pad_sequence({zeros({2}), tensor({1})}), doctest::Contains("i64 (1,)"),
                       Error);
  CHECK_THROWS_WITH_AS(pad_sequence({tensor({1}, DType::u8), zeros({2}, DType::u8)}, 300),
                       doctest::Contains("does not fit u8"), Error);
}

}  // namespace tern::test_literals
