// Logarithms. Method: fdlibm's e_log.c and s_log1p.c (Sun Microsystems, 1993) without their
// branches; the float polynomial is that of Cephes' logf (Moshier).
#pragma once

#include "tern/core/base/vmath_base.h"

namespace tern::vmath {
namespace detail {

/// x = 2^k m with m in [sqrt(1/2), sqrt(2)), for normal x > 0.
template <class T>
struct Split {
  T k, m;
};

template <class T>
[[gnu::always_inline]] inline Split<T> split(T x) {
  using U = BitsOf<T>;
  const U one = std::bit_cast<U>(T(1));
  const U root = std::bit_cast<U>(T(0.70710678118654752440));
  U u = to_bits(x) + (one - root);
  // Converts the exponent to a number: puts it into the low bits of 2^mantissa and subtracts that.
  const T power = T(U{1} << kMantissa<T>);
  T k = from_bits<T>((u >> kMantissa<T>) | std::bit_cast<U>(power)) - (power + T(kBias<T>));
  U mantissa = u & ((U{1} << kMantissa<T>)-1);
  return {k, from_bits<T>(mantissa + root)};
}

/// k ln 2 + log(1 + f) + c for f in [sqrt(1/2) - 1, sqrt(2) - 1] and a small correction c.
[[gnu::always_inline]] inline float log_sum(float k, float f, float c) {
  constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;
  float z = f * f;
  float p = poly(f, 3.3333331174e-1f, -2.4999993993e-1f, 2.0000714765e-1f, -1.6668057665e-1f,
                 1.4249322787e-1f, -1.2420140846e-1f, 1.1676998740e-1f, -1.1514610310e-1f,
                 7.0376836292e-2f);
  float y = f * z * p + (k * kLn2Low + c);
  return k * kLn2High + (f + (y - 0.5f * z));
}

[[gnu::always_inline]] inline double log_sum(double k, double f, double c) {
  constexpr double kLn2High = 6.93147180369123816490e-01, kLn2Low = 1.90821492927058770002e-10;
  double s = f / (2.0 + f);
  double z = s * s;
  double r = z * poly(z, 6.666666666666735130e-01, 3.999999999940941908e-01,
                      2.857142874366239149e-01, 2.222219843214978396e-01, 1.818357216161805012e-01,
                      1.531383769920937332e-01, 1.479819860511658591e-01);
  double half = 0.5 * f * f;
  return k * kLn2High - ((half - (s * (half + r) + (k * kLn2Low + c))) - f);
}

}  // namespace detail

/// Natural logarithm: log(0) = -inf, log(x < 0) = NaN.
template <class T>
[[gnu::always_inline]] inline T log(T x) {
  // Scales denormal numbers by 2^(mantissa + 2) to make them normal.
  const T scale = T(BitsOf<T>{1} << (kMantissa<T> + 2));
  bool tiny = x < std::numeric_limits<T>::min();
  auto [k, m] = detail::split(tiny ? x * scale : x);
  T y = detail::log_sum(tiny ? k - T(kMantissa<T> + 2) : k, m - T(1), T(0));
  y = x == kInf<T> ? x : y;
  y = x == T(0) ? -kInf<T> : y;
  return x >= T(0) ? y : kNan<T>;
}

/// log(1 + x), accurate for small x too: log1p(-1) = -inf, log1p(x < -1) = NaN.
template <class T>
[[gnu::always_inline]] inline T log1p(T x) {
  T u = T(1) + x;
  auto [k, m] = detail::split(u);
  // The rounding error of u, relative to u. Near 0 nothing is rounded: f is x itself.
  T lost = (k >= T(2) ? T(1) - (u - x) : x - (u - T(1))) / u;
  bool inner = (x > T(-0.29)) & (x < T(0.41));
  T y = detail::log_sum(inner ? T(0) : k, inner ? x : m - T(1), inner ? T(0) : lost);
  y = x == kInf<T> ? x : y;
  y = x == T(0) ? x : y;  // keeps -0
  y = x == T(-1) ? -kInf<T> : y;
  return x >= T(-1) ? y : kNan<T>;
}

}  // namespace tern::vmath
