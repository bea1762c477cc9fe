// Scalars combined with integer tensors: type and value of the result, for every binary op with a
// number on either side, against wide integers; and the errors for numbers that do not fit.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/tensors.h"

namespace tern::ops_numbers {
namespace {

using Wide = __int128;
using Ints = std::vector<int64_t>;
using test::kInf, test::kNan;

const Ints kBytes = {0, 1, 2, 5, 7, 100, 128, 254, 255};
const Ints kLongs = {INT64_MIN, -300, -3, -1, 0, 1, 2, 5, 300, int64_t{1} << 62, INT64_MAX};
const Ints kWhole = {-1000, -256, -255, -2, -1, 0, 1, 2, 3, 100, 255, 256, 300, 1000};
const std::vector<double> kFloating = {2.0, 2.5, -0.5, 0.0, 1e20, 300.0, kInf, kNan};

Tensor of(DType type) {
  const Ints& values = type == DType::u8 ? kBytes : kLongs;
  return tensor(values, Shape(values.size())).to(type);
}

int64_t wrapped(Wide v, DType type) {
  if (type == DType::u8) return static_cast<uint8_t>(v);
  return static_cast<int64_t>(static_cast<uint64_t>(v));
}

Wide floored(Wide a, Wide b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

struct Whole {
  const char* name;
  std::function<Tensor(const Tensor&, Scalar)> with_number;
  std::function<Tensor(const Tensor&, const Tensor&)> with_tensor;
  std::function<Wide(Wide, Wide)> naive;
};

const std::vector<Whole>& whole_ops() {
  using Number = Tensor (*)(const Tensor&, Scalar);
  using Both = Tensor (*)(const Tensor&, const Tensor&);
  static const std::vector<Whole> kOps = {
      {"add", Number(add), Both(add), [](Wide a, Wide b) { return a + b; }},
      {"sub", Number(sub), Both(sub), [](Wide a, Wide b) { return a - b; }},
      {"rsub", [](const Tensor& x, Scalar s) { return s - x; },
       [](const Tensor& x, const Tensor& y) { return y - x; },
       [](Wide a, Wide b) { return b - a; }},
      {"mul", Number(mul), Both(mul), [](Wide a, Wide b) { return a * b; }},
      {"floor_divide", Number(floor_divide), Both(floor_divide), floored},
      {"remainder", Number(remainder), Both(remainder),
       [](Wide a, Wide b) { return a - b * floored(a, b); }},
  };
  return kOps;
}

struct Comparison {
  const char* name;
  Tensor (*number)(const Tensor&, Scalar);
  Tensor (*both)(const Tensor&, const Tensor&);
  std::function<bool(Wide, Wide)> naive;
};

const std::vector<Comparison>& comparisons() {
  static const std::vector<Comparison> kOps = {
      {"eq", eq, eq, [](Wide a, Wide b) { return a == b; }},
      {"ne", ne, ne, [](Wide a, Wide b) { return a != b; }},
      {"lt", lt, lt, [](Wide a, Wide b) { return a < b; }},
      {"le", le, le, [](Wide a, Wide b) { return a <= b; }},
      {"gt", gt, gt, [](Wide a, Wide b) { return a > b; }},
      {"ge", ge, ge, [](Wide a, Wide b) { return a >= b; }},
  };
  return kOps;
}

bool divides(const std::string& name) { return name == "floor_divide" || name == "remainder"; }

TEST_CASE("numbers: integer tensors with whole numbers keep their type and wrap around once") {
  for (DType type : {DType::u8, DType::i64})
    for (const Whole& op : whole_ops())
      for (int64_t s : kWhole) {
        if (s == 0 && divides(op.name)) {
          CHECK_THROWS_WITH_AS(op.with_number(of(type), s), doctest::Contains("zero"), Error);
          continue;
        }
        CAPTURE(fmt::format("{} {} {}", name(type), op.name, s));
        Ints x = of(type).to_vector<int64_t>(), want;
        for (int64_t v : x) want.push_back(wrapped(op.naive(v, s), type));
        Tensor y = op.with_number(of(type), s);
        CHECK(y.dtype() == type);
        CHECK(y.to_vector<int64_t>() == want);
      }
}

TEST_CASE("numbers: integer tensors are compared with whole numbers by value") {
  for (DType type : {DType::u8, DType::i64})
    for (const Comparison& op : comparisons())
      for (int64_t s : kWhole) {
        CAPTURE(fmt::format("{} {} {}", name(type), op.name, s));
        Ints want;
        for (int64_t v : of(type).to_vector<int64_t>()) want.push_back(op.naive(v, s));
        CHECK(op.number(of(type), s).to_vector<int64_t>() == want);
      }
}

TEST_CASE("numbers: integer tensors with floating numbers give f32") {
  using Op = std::function<Tensor(const Tensor&, Scalar)>;
  const std::vector<std::pair<const char*, Op>> ops = {
      {"add", [](const Tensor& x, Scalar s) { return x + s; }},
      {"sub", [](const Tensor& x, Scalar s) { return x - s; }},
      {"rsub", [](const Tensor& x, Scalar s) { return s - x; }},
      {"mul", [](const Tensor& x, Scalar s) { return x * s; }},
      {"div", [](const Tensor& x, Scalar s) { return x / s; }},
      {"rdiv", [](const Tensor& x, Scalar s) { return s / x; }},
      {"floor_divide", [](const Tensor& x, Scalar s) { return floor_divide(x, s); }},
      {"remainder", [](const Tensor& x, Scalar s) { return remainder(x, s); }},
      {"pow", [](const Tensor& x, Scalar s) { return pow(x, s); }},
      {"rpow", [](const Tensor& x, Scalar s) { return pow(s, x); }},
      {"minimum", [](const Tensor& x, Scalar s) { return minimum(x, s); }},
      {"maximum", [](const Tensor& x, Scalar s) { return maximum(x, s); }},
      {"clamp low", [](const Tensor& x, Scalar s) { return clamp(x, s, {}); }},
      {"clamp high", [](const Tensor& x, Scalar s) { return clamp(x, {}, s); }},
      {"eq", [](const Tensor& x, Scalar s) { return eq(x, s); }},
      {"lt", [](const Tensor& x, Scalar s) { return lt(x, s); }},
      {"ge", [](const Tensor& x, Scalar s) { return ge(x, s); }},
      {"where", [](const Tensor& x, Scalar s) { return where(gt(x, 5), x, s); }},
  };
  for (DType type : {DType::u8, DType::i64})
    for (const auto& named : ops)
      for (double s : kFloating) {
        CAPTURE(fmt::format("{} {} {}", name(type), named.first, s));
        Tensor y = named.second(of(type), s), want = named.second(of(type).to(DType::f32), s);
        CHECK(y.dtype() == want.dtype());
        CHECK(y.to_vector<double>().size() == want.to_vector<double>().size());
        auto a = y.to_vector<double>(), b = want.to_vector<double>();
        for (size_t i = 0; i < a.size(); ++i)
          CHECK((a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))));
      }
}

TEST_CASE("numbers: quotients of integers equal those of floats") {
  for (DType type : {DType::u8, DType::i64})
    for (int64_t s : kWhole) {
      CAPTURE(fmt::format("{} {}", name(type), s));
      Tensor x = of(type), floats = x.to(DType::f32);
      for (auto [y, want] : {std::pair{x / s, floats / static_cast<double>(s)},
                             std::pair{s / x, static_cast<double>(s) / floats}}) {
        CHECK(y.dtype() == DType::f32);
        auto a = y.to_vector<float>(), b = want.to_vector<float>();
        for (size_t i = 0; i < a.size(); ++i)
          CHECK((a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))));
      }
    }
  Tensor u = tensor({5, 7, 100}, {3}, DType::u8);
  CHECK((u / 256).to_vector<float>() == std::vector<float>{5 / 256.f, 7 / 256.f, 100 / 256.f});
  CHECK((u / -2).to_vector<float>() == std::vector<float>{-2.5, -3.5, -50});
  CHECK((1000 / u).to_vector<float>() == std::vector<float>{200, 1000 / 7.f, 10});
}

TEST_CASE("numbers: tensors of u8 and i64 give i64") {
  for (DType left : {DType::u8, DType::i64})
    for (DType right : {DType::u8, DType::i64}) {
      const DType type = left == right ? left : DType::i64;
      Tensor a = unsqueeze(of(left), 1), b = unsqueeze(of(right), 0);
      Ints va = a.to_vector<int64_t>(), vb = b.to_vector<int64_t>();
      for (const Whole& op : whole_ops()) {
        CAPTURE(fmt::format("{} {} {}", name(left), name(right), op.name));
        Tensor divisor = divides(op.name) ? where(eq(b, 0), 3, b) : b;
        Ints want;
        for (int64_t u : va)
          for (int64_t v : divisor.to_vector<int64_t>())
            want.push_back(wrapped(op.naive(u, v), type));
        Tensor y = op.with_tensor(a, divisor);
        CHECK(y.dtype() == type);
        CHECK(y.to_vector<int64_t>() == want);
      }
      for (const Comparison& op : comparisons()) {
        CAPTURE(fmt::format("{} {} {}", name(left), name(right), op.name));
        Ints want;
        for (int64_t u : va)
          for (int64_t v : vb) want.push_back(op.naive(u, v));
        CHECK(op.both(a, b).to_vector<int64_t>() == want);
      }
      CHECK((a / b).dtype() == DType::f32);
    }
}

TEST_CASE("numbers: powers of integers") {
  Tensor u = tensor({0, 1, 2, 3, 255}, {5}, DType::u8), i = tensor({-3, 0, 2}, {3}, DType::i64);
  for (int64_t p : {0, 1, 2, 3, 5, 255}) {
    Ints want;
    for (int64_t v : u.to_vector<int64_t>()) {
      int64_t y = 1;
      for (int64_t k = 0; k < p; ++k) y = y * v & 255;
      want.push_back(y);
    }
    CHECK(pow(u, p).dtype() == DType::u8);
    CHECK(pow(u, p).to_vector<int64_t>() == want);
  }
  for (double p : {0.0, 1.0, 2.0, 0.5, -0.5, -1.0, 3.0}) {
    CHECK(pow(u, p).dtype() == DType::f32);
    CHECK(pow(i, p).dtype() == DType::f32);
    CHECK(pow(p, i).dtype() == DType::f32);
  }
  CHECK(pow(i, 2.0).to_vector<float>() == std::vector<float>{9, 0, 4});
  CHECK(pow(i, 2).dtype() == DType::i64);
  CHECK(pow(i, 0).to_vector<int64_t>() == Ints{1, 1, 1});
  CHECK(pow(i, 300).to_vector<int64_t>() == Ints{4157753088978724465, 0, 0});  // as PyTorch
  CHECK(pow(300, tensor({1, 2}, {2}, DType::u8)).to_vector<int64_t>() == Ints{44, 144});
  CHECK(pow(2, tensor({1, -2}, {2}, DType::i64)).to_vector<int64_t>() == Ints{2, 0});
  for (int64_t p : {-1, -2})
    for (const Tensor& x : {u, i})
      CHECK_THROWS_WITH_AS(pow(x, p), doctest::Contains(".to(DType::f32)"), Error);
  CHECK_THROWS_WITH_AS(pow(u, 256), doctest::Contains("pow: 256 does not fit u8"), Error);
}

TEST_CASE("numbers: a stored number must fit the type") {
  Tensor u = tensor({1, 2}, {2}, DType::u8), i = u.to(DType::i64), f = u.to(DType::f32);
  Tensor mask = tensor({1, 0}, {2}, DType::u8);
  NoGradGuard guard;
  using Store = std::function<Tensor(const Tensor&, Scalar)>;
  const std::vector<std::pair<std::string, Store>> stores = {
      {"full", [](const Tensor& x, Scalar s) { return full({1}, s, x.dtype()); }},
      {"fill_",
       [](const Tensor& x, Scalar s) {
         Tensor y = x.clone();
         fill_(y, s);
         return narrow(y, 0, 0, 1);
       }},
      {"masked_fill",
       [=](const Tensor& x, Scalar s) { return narrow(masked_fill(x, mask, s), 0, 0, 1); }},
      {"pad",
       [](const Tensor& x, Scalar s) {
         return narrow(pad(x, {1, 0}, s), 0, 0, 1);
       }},
      {"scalar", [](const Tensor& x, Scalar s) { return reshape(scalar(s, x.dtype()), 1); }},
  };
  for (const auto& named : stores) {
    const std::string& op = named.first;
    const Store& store = named.second;
    CAPTURE(op);
    auto fits = [&](const Tensor& x, Scalar s, double want) {
      Tensor y = store(x, s);
      CHECK(y.dtype() == x.dtype());
      CHECK(y.item() == want);
    };
    fits(u, 255, 255);
    fits(u, -1, 255);
    fits(u, -255, 1);
    fits(u, 255.9, 255);
    fits(i, -2.5, -2);
    fits(i, int64_t{1} << 62, 0x1p62);
    fits(f, kInf, kInf);
    fits(f, 300, 300);
    for (Scalar s : {Scalar(300), Scalar(256), Scalar(-256), Scalar(-0.5), Scalar(256.0),
                     Scalar(kNan), Scalar(kInf), Scalar(1e30)})
      CHECK_THROWS_WITH_AS(store(u, s), doctest::Contains((op + ": ").c_str()), Error);
    for (double s : {kNan, kInf, -kInf, 1e30, 0x1p63})
      CHECK_THROWS_WITH_AS(store(i, s), doctest::Contains("does not fit i64"), Error);
    if (op != "scalar")
      CHECK_THROWS_WITH_AS(store(f, 1e39), doctest::Contains("does not fit f32"), Error);
  }
  CHECK(where(mask, u, -2).to_vector<int64_t>() == Ints{1, 254});
  CHECK(where(mask, 2.5, u).to_vector<float>() == std::vector<float>{2.5, 2});
  CHECK_THROWS_WITH_AS(where(mask, u, 300), doctest::Contains("where: 300 does not fit u8"), Error);
  CHECK_THROWS_WITH_AS(where(mask, 300, u), doctest::Contains("ask for DType::i64"), Error);
  CHECK_THROWS_WITH_AS(tensor({1, 300}, {2}, DType::u8), doctest::Contains("tensor: 300"), Error);
  CHECK(tensor({-1, 2.5}, {2}, DType::u8).to_vector<int64_t>() == Ints{255, 2});
  for (auto make :
       {+[] { return tensor({-1.0}, {1}, DType::u8); }, +[] { return tensor({-1.0}, DType::u8); },
        +[] { return full({1}, -1.0, DType::u8); }})
    CHECK_THROWS_WITH_AS(make(), doctest::Contains("-1 does not fit u8"), Error);
  CHECK(tensor({INT64_MAX}, {1}, DType::i64).item<int64_t>() == INT64_MAX);  // exact
  CHECK((f + 1e39).to_vector<double>() == std::vector<double>{kInf, kInf});
}

TEST_CASE("numbers: uniform over ranges whose width exceeds the type") {
  Rng rng(3);
  for (auto [type, most] : {std::pair(DType::f32, 3e38), std::pair(DType::f64, 1.7e308)}) {
    const auto u = uniform({4000}, -most, most, rng, type).to_vector<double>();
    double mean = 0, square = 0;
    for (double v : u) {
      CHECK(std::abs(v) <= most);
      mean += v / most / 4000;
      square += v / most * v / most / 4000;
    }
    CHECK(std::abs(mean) < 5 / std::sqrt(3 * 4000.));  // five standard deviations
    CHECK(std::abs(square - 1. / 3) < 5 * std::sqrt((1. / 5 - 1. / 9) / 4000));
  }
  Rng one(4);
  const double v = one.uniform(-1.7e308, 1.7e308);
  CHECK(std::isfinite(v));
  CHECK(v != -1.7e308);
  CHECK_THROWS_WITH_AS(uniform({2}, 0, kInf, rng), doctest::Contains("not finite"), Error);
  CHECK_THROWS_WITH_AS(uniform({2}, 0, 1e39, rng), doctest::Contains("does not fit f32"), Error);
}

TEST_CASE("numbers: ranges that do not fit, and ranges beyond 2^53") {
  CHECK(arange(0, 300, 100, DType::u8).to_vector<int64_t>() == Ints{0, 100, 200});
  CHECK(arange(-3, 0, 1, DType::u8).to_vector<int64_t>() == Ints{253, 254, 255});
  CHECK_THROWS_WITH_AS(arange(0, 300, 1, DType::u8), doctest::Contains("arange: 299"), Error);
  CHECK_THROWS_WITH_AS(linspace(0, 300, 4, DType::u8), doctest::Contains("linspace: 300"), Error);
  const int64_t large = int64_t{1} << 60;
  CHECK(arange(large, large + 3).to_vector<int64_t>() == Ints{large, large + 1, large + 2});
  CHECK(arange(INT64_MAX - 1, INT64_MAX).to_vector<int64_t>() == Ints{INT64_MAX - 1});
  CHECK(arange(INT64_MIN, INT64_MAX, INT64_MAX).to_vector<int64_t>() ==
        Ints{INT64_MIN, -1, INT64_MAX - 1});
  CHECK(arange(5, 0, -2).to_vector<int64_t>() == Ints{5, 3, 1});
  CHECK(arange(0, 0).numel() == 0);
}

TEST_CASE("numbers: bounds of integers") {
  Tensor u = of(DType::u8), i = of(DType::i64);
  for (const Tensor& x : {u, i})
    for (int64_t s : kWhole) {
      CAPTURE(fmt::format("{} {}", name(x.dtype()), s));
      auto check = [&](bool lower, auto fn) {
        if (x.dtype() == DType::u8 && (lower ? s > 255 : s < 0)) {
          CHECK_THROWS_WITH_AS(static_cast<void>(fn()), doctest::Contains("does not fit u8"),
                               Error);
          return;
        }
        Ints want;
        for (int64_t v : x.to_vector<int64_t>())
          want.push_back(lower ? std::max(v, s) : std::min(v, s));
        CHECK(fn().dtype() == x.dtype());
        CHECK(fn().template to_vector<int64_t>() == want);
      };
      check(true, [&] { return clamp(x, s, {}); });
      check(false, [&] { return clamp(x, {}, s); });
      check(true, [&] { return maximum(x, s); });
      check(false, [&] { return minimum(x, s); });
    }
  const int64_t odd = (int64_t{1} << 53) + 1;  // not a double
  CHECK(clamp(i, odd, odd).to_vector<int64_t>() == Ints(kLongs.size(), odd));
  CHECK(clamp(u, 0, 5.0).dtype() == DType::f32);
}

}  // namespace
}  // namespace tern::ops_numbers
