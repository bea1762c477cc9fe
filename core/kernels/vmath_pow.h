// Powers and roots.
#pragma once

#include <cmath>

#include "tern/core/kernels/vmath_exp.h"
#include "tern/core/kernels/vmath_log.h"

namespace tern::vmath {

/// x^y with the special cases of C: x^0 = 1^y = 1, a negative x only with an integer y (else NaN),
/// 0^y = inf for y < 0, ... By way of exp and log in double, so that float results are exact but
/// for the last rounding.
[[gnu::always_inline]] inline float pow(float x, float y) {
  const double a = abs(x), e = y;
  // From 2^24 on every float is an even integer.
  const bool huge = abs(y) >= 0x1p24f;
  const double shifted = (huge ? 0.0 : e) + kRounder<double>;
  const bool whole = huge | (shifted - kRounder<double> == e);
  const bool odd = whole & ((to_bits(shifted) & 1) != 0);
  const bool negative = (to_bits(x) >> 31) != 0;
  float r = static_cast<float>(exp(e * log(a)));
  r = ((a == 1.0) & (y == y)) ? 1.0f : r;  // also for y = inf, where e * log(a) is NaN
  r = (negative & odd) ? -r : r;
  const bool undefined = (x < 0.0f) & (x > -kInf<float>)&(whole == false);
  r = undefined ? kNan<float> : r;
  return ((x == 1.0f) | (y == 0.0f)) ? 1.0f : r;
}

/// In double it is the C library's, one at a time.
inline double pow(double x, double y) { return std::pow(x, y); }

/// 1 / sqrt(x): inf for 0, NaN for x < 0.
template <class T>
[[gnu::always_inline]] inline T rsqrt(T x) {
  return T(1) / std::sqrt(x);
}

}  // namespace tern::vmath
