// The elementwise ops of elementary.h against the C library and PyTorch's numbers.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/core/ops/op_table.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/threads.h"

namespace tern::ops_elementary {
namespace {

using test::Args, test::Array, test::Arrays, test::close, test::Doubles, test::f64,
    test::for_each_index, test::i64, test::Ints, test::kInf, test::kNan, test::OpRow, test::u8;

/// A row that compares fn with `naive` of single numbers; arguments broadcast.
OpRow row(const char* name, std::vector<Shape> shapes, std::function<Tensor(const Args&)> fn,
          std::function<double(const Doubles&)> naive, double low = -2, double high = 2) {
  auto all = [naive](const Arrays& x) {
    Shape shape = x[0].shape;
    for (const Array& a : x) shape = broadcast_shapes("naive", shape, a.shape);
    Array y(shape);
    for_each_index(shape, [&](const Dims& i) {
      Doubles numbers;
      for (const Array& a : x) numbers.push_back(a.broadcast_at(i));
      y.at(i) = naive(numbers);
    });
    return y;
  };
  return {name, std::move(shapes), std::move(fn), all, low, high};
}

OpRow row(const char* name, Tensor (*op)(const Tensor&), double (*naive)(double), double low = -2,
          double high = 2) {
  return row(
      name, {{3, 4}}, [op](const Args& x) { return op(x[0]); },
      [naive](const Doubles& v) { return naive(v[0]); }, low, high);
}

using Binary = Tensor (*)(const Tensor&, const Tensor&);

std::vector<OpRow> broadcast(const char* name, Binary op, double (*naive)(double, double),
                             double low = -2, double high = 2) {
  std::vector<OpRow> rows;
  for (const std::vector<Shape>& shapes : std::vector<std::vector<Shape>>{
           {{3, 4}, {3, 4}}, {{3, 2, 4}, {4}}, {{3, 1}, {3, 1, 4}}, {{}, {3, 4}}})
    rows.push_back(row(
        name, shapes, [op](const Args& x) { return op(x[0], x[1]); },
        [naive](const Doubles& v) { return naive(v[0], v[1]); }, low, high));
  return rows;
}

double digamma_of(double x) {  // recurrence up to large x, then the series
  double sum = 0;
  for (; x < 1e4; x += 1) sum -= 1 / x;
  return sum + std::log(x) - 0.5 / x - 1 / (12 * x * x);
}

double inverse_of_erf(double y) {  // by bisection
  double low = -6, high = 6;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (std::erf(middle) < y ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// The value of fn(x), then its gradients by each input, with ones as the gradient from above.
std::vector<Doubles> run(const std::function<Tensor(const Args&)>& fn, Args x) {
  for (Tensor& t : x) t = t.clone().set_requires_grad();
  Tensor y = fn(x);
  std::vector<Doubles> all = {y.to_vector<double>()};
  for (const Tensor& g : grad({y}, x, {.gradients = {ones_like(y)}}))
    all.push_back(g.to_vector<double>());
  return all;
}

TEST_CASE("op table: trigonometric, hyperbolic, logarithmic") {
  test::run_rows({
      row("tan", tan, std::tan, -1.2, 1.2),
      row("atan", atan, std::atan, -4, 4),
      row("sinh", sinh, std::sinh),
      row("cosh", cosh, std::cosh),
      row("log2", log2, std::log2, 0.2, 3),
      row("log10", log10, std::log10, 0.2, 3),
  });
  test::run_rows(broadcast("atan2", atan2, std::atan2));
  test::run_rows(broadcast("logaddexp", logaddexp,
                           [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }));
  test::run_rows(broadcast("logaddexp2", logaddexp2, [](double a, double b) {
    return std::log2(std::exp2(a) + std::exp2(b));
  }));
}

TEST_CASE("op table: error and gamma functions") {
  auto trigamma = [](const Args& x) { return polygamma(1, x[0]); };
  auto squares = [](const Doubles& v) {  // sum of 1 / (x + k)^2; Euler-Maclaurin for the rest
    double sum = 0, x = v[0];
    for (; x < 1e4; x += 1) sum += 1 / (x * x);
    return sum + 1 / x + 1 / (2 * x * x) + 1 / (6 * x * x * x);
  };
  test::run_rows({
      row("erfc", erfc, std::erfc, -3, 3),
      row("erfinv", erfinv, inverse_of_erf, -0.9, 0.9),
      row("lgamma", lgamma, std::lgamma, 0.3, 5),
      row("digamma", digamma, digamma_of, 0.3, 5),
      row("polygamma 1", {{3, 4}}, trigamma, squares, 0.4, 5),
  });
}

TEST_CASE("op table: rounding, choosing, mixing") {
  auto mixed = [](const Doubles& v) { return v[0] + v[2] * (v[1] - v[0]); };
  auto lerps = [](const Args& x) { return lerp(x[0], x[1], x[2]); };
  auto clamps = [](const Args& x) { return clamp(x[0], x[1], x[2] + 1); };
  auto clamped = [](const Doubles& v) { return std::min(std::max(v[0], v[1]), v[2] + 1); };
  test::run_rows({
      row("trunc", trunc, std::trunc, -5, 5.2),
      row(
          "fmod 0.41", {{3, 4}}, [](const Args& x) { return fmod(x[0], 0.41); },
          [](const Doubles& v) { return std::fmod(v[0], 0.41); }),
      row(
          "lerp 0.3", {{3, 4}, {3, 4}}, [](const Args& x) { return lerp(x[0], x[1], 0.3); },
          [](const Doubles& v) { return 0.7 * v[0] + 0.3 * v[1]; }),
      row("lerp", {{3, 4}, {3, 4}, {3, 4}}, lerps, mixed),
      row("lerp, broadcast", {{3, 4}, {4}, {3, 1}}, lerps, mixed),
      row(
          "nan_to_num", {{3, 4}}, [](const Args& x) { return nan_to_num(x[0]); },
          [](const Doubles& v) { return v[0]; }),
      row("clamp by tensors", {{3, 4}, {3, 4}, {4}}, clamps, clamped),
      row(
          "clamp by a lower tensor", {{3, 4}, {3, 1}},
          [](const Args& x) { return clamp(x[0], x[1], Tensor()); },
          [](const Doubles& v) { return std::max(v[0], v[1]); }),
  });
  test::run_rows(broadcast("fmod", fmod, std::fmod, 0.31, 5));
}

TEST_CASE("op table: isinf") {
  OpRow r = row("isinf", isinf, [](double) { return 0.0; });
  r.gradient = false;
  test::run_rows({r});
  CHECK(isinf(f64({kNan, kInf, -kInf, 1e308})).to_vector<int>() == std::vector<int>{0, 1, 1, 0});
  CHECK(isinf(f64({3.5e38, kInf}).to(DType::f32)).to_vector<int>() == std::vector<int>{1, 1});
  CHECK(isinf(i64({INT64_MAX})).item<int>() == 0);
}

TEST_CASE("elementary: special values and their gradients are those of PyTorch") {
  using Rows = std::vector<Doubles>;
  auto equal = [](const Rows& got, const Rows& want) {
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(close(got[i], want[i], 2e-14));
  };
  equal(
      run([](const Args& x) { return erfinv(x[0]); }, {f64({0, 0.5, -0.9, 1, -1, 1.5, 0.999999})}),
      {{0, 0.4769362762044699, -1.1630871536766743, kInf, -kInf, kNan, 3.458910737275499},
       {0.8862269254527579, 1.1125848189719496, 3.4280428114518418, kInf, kInf, kNan,
        139146.31032670863}});
  equal(
      run([](const Args& x) { return lgamma(x[0]); }, {f64({0.5, 3, -0.5, 0, -1, 1e10})}),
      {{0.5723649429247001, 0.6931471805599453, 1.2655121234846454, kInf, kInf, 220258509288.81058},
       {-1.9635100260214229, 0.922784335098467, 0.03648997397857639, -kInf, kNan,
        23.025850929890456}});
  // These are the exact values: PyTorch's trigamma has only nine digits.
  equal(run([](const Args& x) { return digamma(x[0]); }, {f64({0.5, 3, -0.5, 0, -2.5})}),
        {{-1.9635100260214229, 0.922784335098467, 0.03648997397857639, -kInf, 1.1031566406452433},
         {4.934802200544679, 0.39493406684822646, 8.934802200544679, kInf, 9.539246644989124}});
  equal(run([](const Args& x) { return polygamma(2, x[0]); }, {f64({0.5, 3, -0.5, -1})}),
        {{-16.828796644234316, -0.15411380631918856, -0.82879664423432, -kInf},
         {97.40909103400242, 0.11893940226682916, 193.40909103400242, kInf}});
  equal(run([](const Args& x) { return erfc(x[0]); }, {f64({0, 3, -3, 10})}),
        {{1, 2.209049699858544e-05, 1.9999779095030015, 2.088487583762545e-45},
         {-1.1283791670955126, -0.00013925305194674786, -0.00013925305194674786,
          -4.197656231354417e-44}});
  equal(run([](const Args& x) { return nan_to_num(x[0], 1, 2, 3); }, {f64({kNan, kInf, -kInf, 4})}),
        {{1, 2, 3, 4}, {0, 0, 0, 1}});
  equal(run([](const Args& x) { return fmod(x[0], x[1]); },
            {f64({-7, 7, 5, kInf, 3}), f64({2, -2, kInf, 2, 0})}),
        {{-1, 1, 5, kNan, kNan}, {1, 1, 1, 1, 1}, {3, 3, 0, -kInf, -kInf}});
  equal(run([](const Args& x) { return logaddexp(x[0], x[1]); },
            {f64({kInf, -kInf, 0, 1}), f64({kInf, -kInf, -kInf, 1})}),
        {{kInf, -kInf, 0, 1.6931471805599454}, {kNan, kNan, 1, 0.5}, {kNan, kNan, 0, 0.5}});
  equal(run([](const Args& x) { return logaddexp2(x[0], x[1]); },
            {f64({kInf, -kInf, 0, 1, 2000}), f64({kInf, -kInf, -kInf, 1, 2000})}),
        {{kInf, -kInf, 0, 2, 2001}, {kNan, kNan, 1, 0.5, 0.5}, {kNan, kNan, 0, 0.5, 0.5}});
  equal(run([](const Args& x) { return atan2(x[0], x[1]); },
            {f64({0, 1, 0, -0.0}), f64({0, 0, -1, -1})}),
        {{0, M_PI / 2, M_PI, -M_PI}, {0, 0, -1, -1}, {0, -1, 0, 0}});
  equal(run([](const Args& x) { return clamp(x[0], x[1], x[2]); },
            {f64({-1, 0, 0.5, 1, 2, 3, 0.5}), f64({0, 0, 0, 0, 0, 5, 1}),
             f64({1, 1, 1, 1, 1, 1, 0})}),
        {{0, 0, 0.5, 1, 1, 1, 0},
         {0, 0.5, 1, 0.5, 0, 0, 0},
         {1, 0.5, 0, 0, 0, 0, 0},
         {0, 0, 0, 0.5, 1, 1, 1}});
}

TEST_CASE("fmod of f32 is exact") {
  Rng rng(6);
  const auto draw = [&] {  // quotients from 2^-30 to 2^60, many whole ones, and special numbers
    constexpr float kSpecial[] = {0, -0.F, HUGE_VALF, -HUGE_VALF, 1e-45F, NAN};
    if (rng.below(10) == 0) return kSpecial[rng.below(6)];
    const auto x = static_cast<float>(rng.below(2000) - 1000);
    return std::ldexp(rng.below(2) ? x : x * 1.0000001F, static_cast<int>(rng.below(30)) - 15);
  };
  for (int i = 0; i < 200000; ++i) {
    const float a = draw(), b = draw();
    const float got = fmod(scalar(a), scalar(b)).item<float>(), want = std::fmod(a, b);
    const bool equal = got == want && std::signbit(got) == std::signbit(want);
    REQUIRE_MESSAGE((equal || (std::isnan(got) && std::isnan(want))), a << " by " << b);
  }
}

TEST_CASE("elementary: f32 over the whole range") {
  Tensor tiny = pow(10, linspace(-44, 38, 2001)), zero = zeros({1});
  Tensor x = cat({linspace(-120, 120, 20001), tiny, -tiny, zero, -zero});
  Tensor wide = x.to(DType::f64);
  struct Row {
    const char* name;
    Tensor (*op)(const Tensor&);
    double (*exact)(double);
    double ulps;
  };
  const std::vector<Row> rows = {{"tan", tan, std::tan, 3},    {"atan", atan, std::atan, 1},
                                 {"sinh", sinh, std::sinh, 1}, {"cosh", cosh, std::cosh, 1},
                                 {"log2", log2, std::log2, 1}, {"log10", log10, std::log10, 1},
                                 {"erfc", erfc, std::erfc, 2}};
  for (const Row& r : rows) {
    CAPTURE(r.name);
    Doubles got = r.op(x).to_vector<double>(), at = wide.to_vector<double>();
    double worst = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      const auto want = static_cast<float>(r.exact(at[i]));
      if (std::isnan(want) && std::isnan(got[i])) continue;
      if (static_cast<float>(got[i]) == want) continue;
      const double ulp = std::nextafter(std::abs(want), HUGE_VALF) - std::abs(want);
      worst = std::max(worst, std::abs(got[i] - want) / ulp);
    }
    CHECK(worst <= r.ulps);
  }
  CHECK(log2(tensor({8, 0.25, 0}, {3})).to_vector<double>() == Doubles{3, -2, -kInf});
  CHECK(log10(tensor({1000, 0.01F, 1e10}, {3})).to_vector<float>() ==
        std::vector<float>{3, -2, 10});
  Tensor y = tensor({0, -0.0, kInf, -kInf, kInf, 1, kNan, -0.0}, {8});
  Tensor z = tensor({-0.0, 0, kInf, kInf, -kInf, kInf, 1, -1}, {8});
  Doubles ys = y.to_vector<double>(), zs = z.to_vector<double>(), want;
  for (size_t i = 0; i < ys.size(); ++i)
    want.push_back(static_cast<float>(std::atan2(ys[i], zs[i])));
  CHECK(close(atan2(y, z).to_vector<double>(), want, 0));
}

TEST_CASE("elementary: integers") {
  for (DType type : {DType::u8, DType::i64}) {
    Tensor x = tensor({1, 2, 100}, {3}, type), wide = x.to(DType::f32);
    for (Tensor (*op)(const Tensor&) : {tan, atan, sinh, log2, log10, erfc, lgamma, digamma}) {
      CHECK(op(x).dtype() == DType::f32);
      CHECK(op(x).to_vector<float>() == op(wide).to_vector<float>());
    }
    CHECK(atan2(x, x).dtype() == DType::f32);
    CHECK(trunc(x).dtype() == type);
    CHECK(nan_to_num(x).dtype() == type);
  }
  CHECK(fmod(i64({-7, 7, INT64_MIN}), i64({2, -2, -1})).to_vector<int64_t>() == Ints{-1, 1, 0});
  CHECK(fmod(u8({200}), 300).item<int>() == 200);
  CHECK(fmod(i64({7}), 2.5).item() == 2);
  CHECK_THROWS_WITH_AS(fmod(i64({1}), 0), doctest::Contains("fmod: the divisor"), Error);
  CHECK(clamp(i64({1, 5, 9}), i64({2}), i64({7})).to_vector<int64_t>() == Ints{2, 5, 7});
  CHECK_THROWS_WITH_AS(clamp(i64({1}), Tensor(), Tensor()),
                       doctest::Contains("clamp: both bounds are undefined"), Error);
  CHECK_THROWS_WITH_AS(polygamma(-1, f64({1})), doctest::Contains("polygamma"), Error);
}

TEST_CASE("elementary: bits") {
  Tensor a = i64({12, -1, 5}), b = i64({10, 7, -2});
  CHECK(bitwise_and(a, b).to_vector<int64_t>() == Ints{8, 7, 4});
  CHECK(bitwise_or(a, b).to_vector<int64_t>() == Ints{14, -1, -1});
  CHECK(bitwise_xor(a, b).to_vector<int64_t>() == Ints{6, -8, -5});
  CHECK(bitwise_not(a).to_vector<int64_t>() == Ints{-13, 0, -6});
  CHECK(bitwise_not(u8({1})).item<int>() == 254);
  CHECK(bitwise_and(u8({255}), i64({300})).item<int64_t>() == 44);
  CHECK(bitwise_left_shift(i64({1, 3, -1}), i64({62, 64, 1})).to_vector<int64_t>() ==
        Ints{int64_t{1} << 62, 0, -2});
  CHECK(bitwise_left_shift(u8({200}), u8({1})).item<int>() == 144);
  CHECK(bitwise_right_shift(i64({-5, 5, -5, 5}), i64({1, 1, 99, 99})).to_vector<int64_t>() ==
        Ints{-3, 2, -1, 0});
  CHECK(bitwise_right_shift(u8({200}), u8({9})).item<int>() == 0);
  CHECK(bitwise_xor(reshape(arange(0, 6), {3, 2}), transpose(ones({2, 1}, DType::i64), 0, 1))
            .to_vector<int64_t>() == Ints{1, 0, 3, 2, 5, 4});
  CHECK(bitwise_or(zeros({0, 3}, DType::u8), u8({1})).shape() == Shape{0, 3});
  CHECK_THROWS_WITH_AS(bitwise_and(f64({1}), a), doctest::Contains("bitwise_and: needs integers"),
                       Error);
  CHECK_THROWS_WITH_AS(bitwise_left_shift(a, i64({-1})), doctest::Contains("not be negative"),
                       Error);
}

TEST_CASE("elementary: same bits on any number of threads") {
  Rng rng(5);
  Tensor x = randn({300, 401}, rng), y = randn({401}, rng);
  test::check_threads({3}, [&] {
    return (atan2(sinh(x), y) + logaddexp(x, y) + erfinv(atan(x) / 2) + lerp(x, y, tan(y)))
        .to_vector<float>();
  });
}

}  // namespace
}  // namespace tern::ops_elementary
