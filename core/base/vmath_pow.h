// Powers and roots.
#pragma once

#include <cmath>

#include "tern/core/base/vmath_exp.h"
#include "tern/core/base/vmath_log.h"

namespace tern::vmath {

namespace detail {

/// A condition as a bit mask: g++ does not vectorise every mixture of bool and selection.
[[gnu::always_inline]] inline uint64_t mask(bool condition) {
  return condition ? ~uint64_t{0} : uint64_t{0};
}

[[gnu::always_inline]] inline double select(uint64_t mask, double yes, double no) {
  return from_bits<double>((to_bits(yes) & mask) | (to_bits(no) & ~mask));
}

}  // namespace detail

/// x^y with C's special cases: x^0 = 1^y = 1, a negative x only with an integer y (else NaN), 0^y =
/// inf for y < 0, ... Computed by exp and log in double, so that float results are exact except for
/// the final rounding.
[[gnu::always_inline]] inline float pow(float x, float y) {
  using detail::mask;
  const double b = x, e = y, a = abs(b);
  // Every float from 2^24 on is an even integer.
  const double bounded = abs(e) >= 0x1p24 ? 0.0 : e;
  const double shifted = bounded + kRounder<double>;
  const uint64_t whole = mask(shifted - kRounder<double> == bounded);
  const uint64_t sign = whole & to_bits(b) & (to_bits(shifted) << 63);  // of x if y is odd
  double r = exp(e * log(a));
  // 1^y and (-1)^y. This includes y = inf, where e * log(a) would be NaN.
  r = detail::select(mask(a == 1.0) & mask(e == e), 1.0, r);
  r = from_bits<double>(to_bits(r) | sign);
  r = detail::select(mask(b < 0.0) & mask(a < kInf<double>) & ~whole, kNan<double>, r);
  return static_cast<float>(detail::select(mask(b == 1.0) | mask(e == 0.0), 1.0, r));
}

/// For double: calls the C library for each number.
inline double pow(double x, double y) { return std::pow(x, y); }

/// 1 / sqrt(x): inf for 0, NaN for x < 0.
template <class T>
[[gnu::always_inline]] inline T rsqrt(T x) {
  return T(1) / std::sqrt(x);
}

}  // namespace tern::vmath
