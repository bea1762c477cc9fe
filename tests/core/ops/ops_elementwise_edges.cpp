// Elementwise ops beyond the op table: types, special values, ties, integers, layouts, dropout.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_elementwise_edges {
namespace {

using test::Doubles, test::f64, test::i64, test::Ints, test::kInf, test::kNan, test::u8;

// Equality that includes NaN and the sign of zeros.
bool same(const Tensor& t, const Doubles& want) {
  Doubles got = t.to_vector<double>();
  if (got.size() != want.size()) return false;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(want[i])) continue;
    if (got[i] != want[i] || std::signbit(got[i]) != std::signbit(want[i])) return false;
  }
  return true;
}

Tensor gradient(const std::function<Tensor(const Tensor&)>& fn, const Tensor& at) {
  Tensor x = at.clone();
  x.set_requires_grad();
  Tensor y = fn(x);
  return grad({y}, {x}, {.gradients = {ones_like(y)}})[0];
}

TEST_CASE("elementwise: the type of a result") {
  Tensor f = scalar(1.5), d = scalar(1.5, DType::f64), i = i64({7}), u = u8({200});
  CHECK((f + i).dtype() == DType::f32);
  CHECK((u * d).dtype() == DType::f64);
  CHECK((i + u).dtype() == DType::i64);
  CHECK((u + u).dtype() == DType::u8);
  CHECK((i / u).dtype() == DType::f32);
  CHECK((i * 2).dtype() == DType::i64);
  CHECK((i * 2.5).dtype() == DType::f32);
  CHECK((i * 2.5).item() == 17.5);
  CHECK((d * 2.5f).dtype() == DType::f64);
  CHECK(exp(i).dtype() == DType::f32);
  CHECK(relu(i).dtype() == DType::i64);
  CHECK(clamp(i, 0, 5).dtype() == DType::i64);
  CHECK(clamp(i, 0, 5.5).item() == 5.5);
  CHECK(lt(i, d).dtype() == DType::u8);
  CHECK(where(u8({1}), i, f).dtype() == DType::f32);
  CHECK(where(u8({1, 0}), 3, 4).to_vector<int64_t>() == std::vector<int64_t>{3, 4});
  CHECK(where(u8({1, 0}), 3, 4).dtype() == DType::i64);
  CHECK(where(u8({1}), 0, -kInf).dtype() == DType::f32);
  CHECK(same(arange(3), {0, 1, 2}));
  CHECK(arange(3).dtype() == DType::i64);
  CHECK(eye(2, DType::f64).dtype() == DType::f64);
  CHECK(same(eye(2, DType::f64), {1, 0, 0, 1}));
  CHECK(same(max(f, scalar(2)), {2}));
  CHECK(same(min(f, scalar(2)), {1.5}));
  CHECK_THROWS_WITH_AS(f + d, doctest::Contains(".to(DType::f64)"), Error);
  CHECK_THROWS_WITH_AS(lt(f, d), doctest::Contains("lt: mixes f32 and f64"), Error);
  CHECK_THROWS_WITH_AS(zeros({2, 3}) + zeros({4}), doctest::Contains("add: shapes (2, 3) and (4,)"),
                       Error);
  CHECK_THROWS_WITH_AS(where(i, f, f), doctest::Contains("u8"), Error);
}

TEST_CASE("elementwise: integers wrap around, and never crash") {
  CHECK((u8({200}) + u8({100})).item<int>() == 44);
  CHECK((-u8({1})).item<int>() == 255);
  CHECK((u8({1}) - 2).item<int>() == 255);
  Tensor low = i64({INT64_MIN});
  CHECK((low - 1).item<int64_t>() == INT64_MAX);
  CHECK((-low).item<int64_t>() == INT64_MIN);
  CHECK(abs(low).item<int64_t>() == INT64_MIN);
  CHECK((low * 3).item<int64_t>() == INT64_MIN);
  CHECK(floor_divide(low, -1).item<int64_t>() == INT64_MIN);
  CHECK(remainder(low, -1).item<int64_t>() == 0);
  Tensor a = i64({7, -7, 7, -7, 0}), b = i64({2, 2, -2, -2, -5});
  CHECK(floor_divide(a, b).to_vector<int64_t>() == Ints{3, -4, -4, 3, 0});
  CHECK(remainder(a, b).to_vector<int64_t>() == Ints{1, 1, -1, -1, 0});
  CHECK(floor_divide(u8({200}), 7).item<int>() == 28);
  CHECK(pow(i64({2, 3, -1, 0, 1, 0}), i64({-1, 40, -3, 0, -5, -2})).to_vector<int64_t>() ==
        Ints{0, -6289078614652622815, -1, 1, 1, 0});
  CHECK(pow(i64({-3}), 3).item<int64_t>() == -27);
  CHECK(square(i64({-3})).item<int64_t>() == 9);
  CHECK(clamp(u8({3, 250}), -5, 1e9).to_vector<int>() == std::vector<int>{3, 250});
  for (const Tensor& zero : {i64({1, 0}), u8({0, 1})}) {
    CHECK_THROWS_WITH_AS(floor_divide(i64({1, 2}), zero), doctest::Contains("zero"), Error);
    CHECK_THROWS_WITH_AS(remainder(u8({1, 2}), zero), doctest::Contains("zero"), Error);
  }
  CHECK_THROWS_WITH_AS(floor_divide(i64({1}), 0), doctest::Contains("floor_divide"), Error);
  CHECK(floor_divide(zeros({0}, DType::i64), 0).numel() == 0);
  CHECK_THROWS_WITH_AS(pow(i64({2}), -1), doctest::Contains("power -1"), Error);
}

TEST_CASE("elementwise: special values are those of PyTorch") {
  Tensor x = f64({0.0, -0.0, kNan, kInf, -kInf, 2, -200});
  CHECK(same(relu(x), {0, 0, kNan, kInf, 0, 2, 0}));
  CHECK(same(abs(x), {0, 0, kNan, kInf, kInf, 2, 200}));
  CHECK(same(neg(x), {-0.0, 0, kNan, -kInf, kInf, -2, 200}));
  CHECK(same(sign(x), {0, 0, 0, 1, -1, 1, -1}));
  CHECK(same(sqrt(x), {0, -0.0, kNan, kInf, kNan, std::sqrt(2.0), kNan}));
  CHECK(same(exp(x), {1, 1, kNan, kInf, 0, std::exp(2.0), std::exp(-200.0)}));
  CHECK(same(sigmoid(f64({kInf, -kInf, kNan})), {1, 0, kNan}));
  CHECK(same(tanh(f64({kInf, -kInf, -0.0})), {1, -1, -0.0}));
  CHECK(same(softplus(f64({kInf, -kInf, 1000, kNan})), {kInf, 0, 1000, kNan}));
  CHECK(same(elu(f64({kInf, -kInf, kNan})), {kInf, -1, kNan}));
  CHECK(same(clamp(x, -1, 1), {0, -0.0, kNan, 1, -1, 1, -1}));
  CHECK(same(clamp(f64({3}), 5, 1), {1}));  // low > high gives high
  CHECK(same(round(f64({0.5, 1.5, 2.5, -0.5, kInf, kNan})), {0, 2, 2, -0.0, kInf, kNan}));
  CHECK(same(floor(f64({-0.5, kNan, -kInf})), {-1, kNan, -kInf}));
  CHECK(same(minimum(f64({1, kNan, 1}), f64({kNan, 1, kInf})), {kNan, kNan, 1}));
  CHECK(same(maximum(f64({1, kNan, 1}), f64({kNan, 1, -kInf})), {kNan, kNan, 1}));
  CHECK(
      same(floor_divide(f64({7, -7, 1, 0, 6}), f64({-2, 2, 0, 0, 0.1})), {-4, -4, kInf, kNan, 59}));
  CHECK(same(remainder(f64({-7, 1, 5, -5, -7}), f64({2, 0, -kInf, kInf, -2})),
             {1, kNan, -kInf, kInf, -1}));
  CHECK(same(pow(f64({-2, -2, 0, 0, kNan, 1}), f64({3, 0.5, 0, -1, 0, kNan})),
             {-8, kNan, 1, kInf, 1, 1}));
  CHECK(same(pow(f64({kNan, 0}), 0), {1, 1}));
  CHECK(same(div(f64({1, 0, -1}), 0), {kInf, kNan, -kInf}));
}

TEST_CASE("elementwise: comparisons and tests of special values") {
  Tensor a = f64({kNan, 0.0, kInf, 1}), b = f64({kNan, -0.0, kInf, 2});
  CHECK(eq(a, b).to_vector<int>() == std::vector<int>{0, 1, 1, 0});
  CHECK(ne(a, b).to_vector<int>() == std::vector<int>{1, 0, 0, 1});
  CHECK(le(a, b).to_vector<int>() == std::vector<int>{0, 1, 1, 1});
  CHECK(isnan(a).to_vector<int>() == std::vector<int>{1, 0, 0, 0});
  CHECK(isfinite(a).to_vector<int>() == std::vector<int>{0, 1, 0, 1});
  CHECK(isfinite(i64({INT64_MAX})).item<int>() == 1);
  CHECK(logical_not(f64({kNan, 0, -0.0, 0.5})).to_vector<int>() == std::vector<int>{0, 1, 1, 0});
  CHECK(logical_and(f64({0.5, 0.5}), u8({4, 0})).to_vector<int>() == std::vector<int>{1, 0});
  CHECK(logical_and(u8({4}), u8({2})).item<int>() == 1);
  CHECK(logical_xor(u8({4}), u8({2})).item<int>() == 0);
  CHECK(logical_or(scalar(0.5), f64({0})).item<int>() == 1);  // operands may differ in type
  CHECK(all_close(f64({1, kInf}), f64({1 + 1e-9, kInf})));
  CHECK_FALSE(all_close(f64({1}), f64({1.1})));
  CHECK_FALSE(all_close(f64({kInf}), f64({-kInf})));
  CHECK_FALSE(all_close(f64({1}), f64({kInf})));
  CHECK_FALSE(all_close(f64({kNan}), f64({kNan})));
  CHECK(all_close(f64({1.05}), scalar(1.0), 0, 0.1));
  CHECK(all_close(zeros({0}), zeros({0})));
}

TEST_CASE("elementwise: gradients at kinks and ties are PyTorch's") {
  Tensor at = f64({-1, 0, 1, kInf, kNan});
  CHECK(same(gradient(relu, at), {0, 0, 1, 1, 1}));
  CHECK(same(gradient([](const Tensor& x) { return abs(x); }, at), {-1, 0, 1, 1, 0}));
  CHECK(same(gradient([](const Tensor& x) { return elu(x); }, f64({0, 1000, -1000})), {1, 1, 0}));
  CHECK(same(gradient([](const Tensor& x) { return leaky_relu(x, 0.5); }, at),
             {0.5, 0.5, 1, 1, 0.5}));
  CHECK(
      same(gradient([](const Tensor& x) { return clamp(x, 0, 1); }, f64({-1, 0, 0.5, 1, 2, kNan})),
           {0, 0, 1, 0, 0, 0}));
  Tensor other = f64({1, 1, 1});
  CHECK(same(gradient([&](const Tensor& x) { return maximum(x, other); }, f64({1, 2, 0})),
             {0.5, 1, 0}));
  CHECK(same(gradient([&](const Tensor& x) { return minimum(other, x); }, f64({1, 2, 0})),
             {0.5, 0, 1}));
}

TEST_CASE("elementwise: gradients of powers") {
  Tensor a = f64({0, 0, -2, -2, 0, 2}), b = f64({0, 2, 3, 0.5, -1, 0});
  CHECK(same(gradient([&](const Tensor& x) { return pow(x, b); }, a), {0, 0, 12, kNan, -kInf, 0}));
  CHECK(same(gradient([&](const Tensor& x) { return pow(a, x); }, b),
             {0, 0, kNan, kNan, -kInf, std::log(2.0)}));
  CHECK(same(gradient([](const Tensor& x) { return pow(x, 3); }, f64({0, -2})), {0, 12}));
  CHECK(same(gradient([](const Tensor& x) { return pow(x, 1); }, f64({0, -2})), {1, 1}));
  CHECK(same(gradient([](const Tensor& x) { return pow(x, 0); }, f64({0, kInf})), {0, 0}));
}

TEST_CASE("elementwise: second derivatives stay finite in branches that are not taken") {
  auto second = [](const std::function<Tensor(const Tensor&)>& fn, double at) {
    Tensor x = f64({at});
    x.set_requires_grad();
    Tensor first = grad({fn(x)}, {x}, {.create_graph = true})[0];
    return grad({first}, {x})[0].item();
  };
  CHECK(second([](const Tensor& x) { return elu(x); }, 1000) == 0);
  CHECK(second([](const Tensor& x) { return pow(x, f64({2})); }, 0) == 2);
  CHECK(second([](const Tensor& x) { return pow(f64({0}), x); }, 2) == 0);
}

TEST_CASE("elementwise: activations in f32 over their whole range") {
  Tensor x = linspace(-30, 30, 6001, DType::f64);
  for (Gelu form : {Gelu::erf, Gelu::tanh}) {
    auto fn = [form](const Tensor& v) { return gelu(v, form); };
    Tensor x32 = x.to(DType::f32), exact = x32.to(DType::f64);
    CHECK(all_close(fn(x32), fn(exact), 1e-6, 1e-6));
    CHECK(all_close(gradient(fn, x32), gradient(fn, exact), 1e-6, 1e-6));
  }
  CHECK(gelu(scalar(1.0, DType::f64)).item() == doctest::Approx(0.8413447460685429).epsilon(1e-14));
  CHECK(gelu(scalar(1.0, DType::f64), Gelu::tanh).item() ==
        doctest::Approx(0.8411919906082768).epsilon(1e-14));
}

TEST_CASE("elementwise: layouts of every kind give the same numbers") {
  // Longer than a staging buffer; inner runs are too short or long enough for a call of their own.
  Rng rng(3);
  for (const Shape& shape : {Shape{40, 3, 60}, Shape{3, 7, 701}, Shape{5000, 3}, Shape{90, 90}}) {
    CAPTURE(to_string(shape));
    Tensor a = randn(shape, rng, DType::f64);
    Dims turned;
    for (int k = shape.size(); k-- > 0;) turned.push_back(shape[k]);
    Tensor b = randn(turned, rng, DType::f64);
    Dims strides;
    for (int k = shape.size(); k-- > 0;) strides.push_back(b.strides()[k]);
    Tensor bt = not_differentiable(Fresh::view(b, {shape, strides, 0}));
    Tensor row = randint(-9, 9, {shape.back()}, rng);
    Dims column_shape = shape;
    column_shape[column_shape.size() - 1] = 1;
    Tensor column = randn(column_shape, rng, DType::f64);
    Doubles want = a.to_vector<double>(), vb = bt.to_vector<double>(), vr = row.to_vector<double>(),
            vc = column.to_vector<double>();
    size_t inner = vr.size();
    for (size_t i = 0; i < want.size(); ++i)
      want[i] = ((want[i] - vb[i]) * vr[i % inner] + vc[i / inner]) * 2;
    CHECK((((a - bt) * row + column) * 2).to_vector<double>() == want);
  }
}

TEST_CASE("elementwise: huge shapes that hold one number, empty and 0-dim tensors") {
  Tensor one = scalar(2);
  Tensor huge = not_differentiable(Fresh::view(one, {{1000, 1000}, {0, 0}, 0}));
  Tensor y = huge * huge;
  CHECK(y.is_contiguous());
  CHECK(y.to_vector<float>() == std::vector<float>(1000000, 4));
  CHECK((zeros({0, 3}) + zeros({3})).shape() == Shape{0, 3});
  CHECK((zeros({1, 0}) + zeros({5, 1})).shape() == Shape{5, 0});
  CHECK(exp(scalar(0)).shape() == Shape{});
  CHECK((scalar(2) * scalar(3)).item() == 6);
}

TEST_CASE("elementwise: same bits on any number of threads") {
  Rng rng(4);
  Tensor x = randn({300, 1001}, rng), y = randn({1001}, rng);
  test::check_threads({3}, [&] {
    Rng mask(5);
    return dropout(gelu(x) * y + pow(abs(x), y), 0.3, mask).to_vector<float>();
  });
}

TEST_CASE("elementwise: a constant operand does not keep the other alive") {
  Tensor x = ones({3}).set_requires_grad(), c = ones({3});
  Tensor product = x * c, sum = x + c;
  CHECK(x.ref().use_count() == 1);  // only the gradient by c would need x
  CHECK(c.ref().use_count() == 2);  // saved by the product
}

TEST_CASE("dropout: share of zeros, scale and gradient") {
  Rng rng(7);
  Tensor x = uniform({200, 500}, 1, 2, rng, DType::f64);
  x.set_requires_grad();
  Tensor y = dropout(x, 0.3, rng);
  Doubles vx = x.to_vector<double>(), vy = y.to_vector<double>();
  Doubles g = grad({y}, {x}, {.gradients = {ones_like(y)}})[0].to_vector<double>();
  double dropped = 0, error = 0;
  for (size_t i = 0; i < vx.size(); ++i) {
    dropped += vy[i] == 0;
    error = std::max(error, std::abs(g[i] - (vy[i] == 0 ? 0 : 1 / 0.7)));
    error = std::max(error, std::abs(vy[i] - vx[i] * g[i]));
  }
  CHECK(error < 1e-14);
  CHECK(std::abs(dropped / 1e5 - 0.3) < 0.0073);  // 5 standard errors
  CHECK(dropout(x, 0.3, rng).to_vector<double>() != vy);
}

TEST_CASE("dropout: elements that share a random word drop independently") {
  Rng rng(7);
  constexpr int64_t kWords = 256, kPairs = 1024 * kWords;
  // Groups of 512: 256 elements use the words as drawn, 256 use them with exchanged halves.
  const double p = 0.3;
  const Tensor kept = reshape(dropout(ones({2 * kPairs}), p, rng), {-1, 2, kWords});
  const Tensor dropped = eq(kept, 0).to(DType::f64);
  const Tensor first = select(dropped, 1, 0), second = select(dropped, 1, 1);
  const double n = kPairs, both = sum(first * second).item() / n;
  CHECK(std::abs(both - p * p) < 5 * std::sqrt(p * p * (1 - p * p) / n));
  for (const Tensor& half : {first, second})
    CHECK(std::abs(sum(half).item() / n - p) < 5 * std::sqrt(p * (1 - p) / n));
  // A probability that needs more than 16 bits: 2^-17 of 2^22 elements are 32.
  const double rare = sum(eq(dropout(ones({1 << 22}), 0x1p-17, rng), 0)).item();
  CHECK(std::abs(rare - 32) < 5 * std::sqrt(32.0));
}

TEST_CASE("dropout: limits, layouts, errors") {
  Rng rng(8);
  Tensor x = f64({1, kNan, kInf});
  CHECK(dropout(x, 0, rng).ref() == x.ref());
  CHECK(same(dropout(x, 1, rng), {0, 0, 0}));
  CHECK(same(gradient([&](const Tensor& v) { return dropout(v, 1, rng); }, x), {0, 0, 0}));
  CHECK(dropout(zeros({0, 3}), 0.5, rng).shape() == Shape{0, 3});
  Tensor m = randn({70, 50}, rng);
  Tensor t = not_differentiable(Fresh::view(m, {{50, 70}, {1, 50}, 0}));
  Rng a(9), b(9);
  CHECK(dropout(t, 0.5, a).to_vector<float>() == dropout(t.clone(), 0.5, b).to_vector<float>());
  CHECK_THROWS_WITH_AS(dropout(x, 1.5, rng), doctest::Contains("dropout: the probability"), Error);
  CHECK_THROWS_AS(dropout(x, kNan, rng), Error);
  CHECK_THROWS_WITH_AS(dropout(i64({1}), 0.5, a), doctest::Contains("dropout: needs a floating"),
                       Error);
  CHECK(a == b);  // the error drew no number
}

}  // namespace
}  // namespace tern::ops_elementwise_edges
