// lgamma, erfc, erfinv and the derivatives of lgamma over the whole range of f32 and f64, against
// the C library and sums in long double.
#include <doctest/doctest.h>

#include <cmath>

#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_special {

namespace {

using Doubles = std::vector<double>;
using test::kInf;

/// psi(x) = psi(x + k) - sum of 1 / (x + i) for i < k, with the asymptotic series for psi(x + k).
long double digamma_by_hand(long double x) {
  long double sum = 0;
  for (; x < 200; x += 1) sum -= 1 / x;
  const long double z = 1 / (x * x);
  return sum + std::log(x) - 0.5L / x - z * (1 / 12.0L - z * (1 / 120.0L - z / 252));
}

long double power(long double x, int n) { return n == 0 ? 1 : x * power(x, n - 1); }

/// (-1)^(n+1) n! sum (x + i)^-(n+1), with the rest of the sum by Euler-Maclaurin.
long double polygamma_by_hand(int n, long double x) {
  const int s = n + 1;
  long double sum = 0, factorial = 1;
  for (; x < 200; x += 1) sum += 1 / power(x, s);
  const long double z = 1 / (x * x), first = 1 / power(x, s);
  sum += first * x / n + first / 2 + first / x * s / 12;
  sum -= first / x * z * s * (s + 1) * (s + 2) / 720;
  sum += first / x * z * z * s * (s + 1) * (s + 2) * (s + 3) * (s + 4) / 30240;
  for (int i = 2; i <= n; ++i) factorial *= i;
  return n % 2 ? factorial * sum : -factorial * sum;
}

/// Every power of 2 times three fractions and both signs. Numbers must exceed `lowest`, below which
/// the sums by hand take too long.
Doubles points(int from, int to, double lowest) {
  Doubles x;
  for (int e = from; e <= to; ++e)
    for (double fraction : {1.0, 1.37, 1.9999})
      for (double sign : {1.0, -1.0}) {
        const double v = sign * std::ldexp(fraction, e);
        if (v > lowest) x.push_back(v);
      }
  return x;
}

/// Checks f(x), the n-th derivative of digamma, in `type` against `by_hand`. Allowed are the
/// rounding of the type and that of the terms in double, the largest of which may cancel.
template <class Fn, class ByHand>
void check_points(int n, const Doubles& given, DType type, Fn f, ByHand by_hand) {
  const Tensor x = tensor(given).to(type);
  const Doubles at = x.to_vector<double>(), got = f(x).template to_vector<double>();
  const double rounding = type == DType::f32 ? 0x1p-24 : 0;
  const double least = type == DType::f32 ? 0x1p-149 : 0,
               most = type == DType::f32 ? 3.4028235e38 : 1.7976931348623157e308;
  for (size_t i = 0; i < at.size(); ++i) {
    CAPTURE(at[i]);
    if (at[i] <= 0 && at[i] == std::floor(at[i])) continue;  // poles
    const auto want = by_hand(static_cast<long double>(at[i]));
    if (std::abs(want) > most) {
      CHECK(got[i] == (want > 0 ? kInf : -kInf));
      continue;
    }
    const double size = static_cast<double>(std::abs(want));
    const double nearest = std::abs(at[i] - std::round(at[i]));
    const double terms = n == 0      ? std::log(2 + std::abs(at[i]))
                         : at[i] < 0 ? std::tgamma(n + 1) / std::pow(nearest, n + 1)
                                     : 0;
    CHECK(std::abs(got[i] - static_cast<double>(want)) <=
          rounding * size + 1e-14 * (size + terms) + least);
  }
}

Tensor gradient_of_lgamma(const Tensor& at) {
  Tensor x = at.clone().set_requires_grad();
  return grad({sum(lgamma(x))}, {x})[0];
}

/// Checks f(x) for x of `type` against by_hand up to `units` in the last place. Results that
/// overflow the type must be infinite.
template <class Fn, class ByHand>
void check_values(const Doubles& given, DType type, double units, Fn f, ByHand by_hand) {
  const bool single = type == DType::f32;
  const Doubles at = tensor(given).to(type).to_vector<double>();
  const Doubles got = f(tensor(given).to(type)).template to_vector<double>();
  const double ulp = single ? 0x1p-23 : 0x1p-52, least = single ? 0x1p-149 : 0x1p-1074;
  const long double most = single ? 3.4028235e38L : 1.7976931348623157e308L;
  for (size_t i = 0; i < at.size(); ++i) {
    CAPTURE(at[i]);
    const long double want = by_hand(static_cast<long double>(at[i]));
    if (std::abs(want) > most)
      CHECK(got[i] == (want > 0 ? kInf : -kInf));
    else
      CHECK(std::abs(static_cast<long double>(got[i]) - want) <=
            units * (ulp * std::abs(want) + least));
  }
}

TEST_CASE("lgamma over the whole range") {
  auto op = [](const Tensor& x) { return lgamma(x); };
  auto by_hand = [](long double x) {
    int sign;
    return ::lgammal_r(x, &sign);
  };
  // f32 is rounded once, from double. In f64 the last places of the C library may be wrong.
  check_values(points(-149, 127, -kInf), DType::f32, 0.501, op, by_hand);
  check_values(points(-1040, 1023, -kInf), DType::f64, 8, op, by_hand);
  for (DType type : {DType::f32, DType::f64}) {
    const Tensor ends = tensor(Doubles{kInf, -kInf, 0, -0.0, -1, -3}).to(type);
    CHECK(lgamma(ends).to_vector<double>() == Doubles(6, kInf));
  }
}

TEST_CASE("erfc over the whole range") {
  auto op = [](const Tensor& x) { return erfc(x); };
  auto by_hand = [](long double x) { return std::erfc(x); };
  Doubles close = points(-149, 127, -kInf), fine = points(-1040, 1023, -kInf);
  for (double x = -8; x < 28; x += 0.0371) {  // the range where erfc is neither 0 nor 2
    close.push_back(x);
    fine.push_back(x);
  }
  check_values(close, DType::f32, 5, op, by_hand);  // the C library may have the last places wrong
  check_values(fine, DType::f64, 5, op, by_hand);
  const Tensor ends = tensor(Doubles{kInf, -kInf});
  CHECK(erfc(ends).to_vector<double>() == Doubles{0, 2});
}

/// erfinv by bisection, or by the series of erf close to 0.
long double erfinv_by_hand(long double y) {
  const long double size = std::abs(y);
  if (size == 1) return y * static_cast<long double>(kInf);
  if (size < 1e-10L) return y * std::sqrt(std::acos(-1.0L)) / 2;
  long double low = 0, high = 7;
  for (int i = 0; i < 200; ++i) {
    const long double middle = (low + high) / 2;
    const bool below = size < 0.5L ? std::erf(middle) < size : std::erfc(middle) > 1 - size;
    (below ? low : high) = middle;
  }
  return y < 0 ? -low : low;
}

TEST_CASE("erfinv over the whole range") {
  auto op = [](const Tensor& x) { return erfinv(x); };
  Doubles single = points(-149, -1, -1), twice = points(-1040, -1, -1);
  for (int k = 1; k <= 53; ++k)
    for (double sign : {1.0, -1.0}) {
      if (k <= 24) single.push_back(sign * (1 - std::ldexp(1, -k)));
      twice.push_back(sign * (1 - std::ldexp(1, -k)));
    }
  single.push_back(1), single.push_back(-1), twice.push_back(1), twice.push_back(-1);
  check_values(single, DType::f32, 0.501, op, erfinv_by_hand);
  check_values(twice, DType::f64, 8, op, erfinv_by_hand);
  for (double beyond : {1.0000001, -1.5, kInf, -kInf})
    CHECK(std::isnan(erfinv(tensor(Doubles{beyond})).item()));
}

TEST_CASE("digamma and the gradient of lgamma over the whole range") {
  const Doubles single = points(-149, 127, -0x1p21), twice = points(-1040, 1022, -0x1p18);
  auto op = [](const Tensor& x) { return digamma(x); };
  check_points(0, single, DType::f32, op, digamma_by_hand);
  check_points(0, single, DType::f32, gradient_of_lgamma, digamma_by_hand);
  check_points(0, twice, DType::f64, op, digamma_by_hand);
  check_points(0, twice, DType::f64, gradient_of_lgamma, digamma_by_hand);
  // Halfway between whole numbers far below 0, where the tangent in the formula is infinite.
  const double far = -0x1p51 - 0.5;
  CHECK(digamma(tensor(Doubles{far})).item() == doctest::Approx(std::log(0x1p51)));
}

TEST_CASE("polygamma over the whole range") {
  for (int n : {1, 2, 3, 4}) {
    CAPTURE(n);
    auto f = [n](const Tensor& x) { return polygamma(n, x); };
    auto by_hand = [n](long double x) { return polygamma_by_hand(n, x); };
    check_points(n, points(-149, 127, -0x1p15), DType::f32, f, by_hand);
    // In double, the terms themselves overflow or underflow at the ends of the range.
    const int end = 1000 / (n + 1);
    check_points(n, points(-end, end, -0x1p15), DType::f64, f, by_hand);
  }
}

TEST_CASE("polygamma far below 0 and at its poles") {
  // Halfway between poles, the terms of both sides cancel: -2 (1 / 2) / x^2 is left.
  const double x = 0x1p40 + 0.5;
  const Tensor far = tensor(Doubles{-x});
  CHECK(polygamma(2, far).item() == doctest::Approx(-1 / (x * x)).epsilon(1e-9));
  CHECK(polygamma(1, far).item() == doctest::Approx(std::pow(std::acos(-1.0), 2)));
  CHECK(polygamma(1, tensor(Doubles{1e200})).item() == doctest::Approx(1e-200));
  for (double pole : {0.0, -1.0, -7.0, -1e30}) {
    const Tensor at = tensor(Doubles{pole});
    CHECK(polygamma(1, at).item() == kInf);
    CHECK(polygamma(2, at).item() == -kInf);
    CHECK((pole == 0 || std::isnan(digamma(at).item())));
  }
  CHECK(digamma(tensor(Doubles{0.0, -0.0})).to_vector<double>() == Doubles{-kInf, kInf});
}

}  // namespace

}  // namespace tern::test_special
