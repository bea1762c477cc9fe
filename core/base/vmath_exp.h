// Exponentials and what is made of them. Method: x = n ln 2 + r with |r| <= ln 2 / 2, a polynomial
// in r interpolated at Chebyshev nodes, and powers of 2 put together from bits.
#pragma once

#include "tern/core/base/vmath_base.h"
#include "tern/core/base/vmath_log.h"

namespace tern::vmath {
namespace detail {

/// x = n ln 2 + r, with n ln 2 taken off in two parts, the first of them without rounding.
template <class T>
struct Reduced {
  T n, r;
};

[[gnu::always_inline]] inline Reduced<float> reduce_exp(float x) {
  float n = round_small(x * 1.44269504088896341f);
  return {n, (x - n * 0.693359375f) - n * -2.12194440e-4f};
}

[[gnu::always_inline]] inline Reduced<double> reduce_exp(double x) {
  double n = round_small(x * 1.4426950408889634074);
  return {n, (x - n * 6.93147180369123816490e-01) - n * 1.90821492927058770002e-10};
}

/// (e^r - 1 - r) / r^2; the errors of e^r are 1e-8 and 2e-17.
[[gnu::always_inline]] inline float exp_tail(float r) {
  return poly(r, 0.5f, 0.16666576266288757f, 0.041666556149721146f, 0.008363178931176662f,
              0.0013926184037700295f);
}

[[gnu::always_inline]] inline double exp_tail(double r) {
  return poly(r, 0.5, 0.16666666666666669, 0.04166666666662413, 0.008333333333330062,
              0.0013888888917213717, 0.00019841269863053618, 2.4801521295954376e-05,
              2.7557268459997064e-06, 2.7620088445409746e-07, 2.510038549551032e-08);
}

/// Arguments below give 0, above infinity; between them n stays in range.
template <class T>
constexpr T kExpLow = sizeof(T) == 4 ? T(-104) : T(-746);
template <class T>
constexpr T kExpHigh = sizeof(T) == 4 ? T(89) : T(710);

}  // namespace detail

/// e^x, down to denormal results.
template <class T>
[[gnu::always_inline]] inline T exp(T x) {
  x = x < detail::kExpLow<T> ? detail::kExpLow<T> : x;
  x = x > detail::kExpHigh<T> ? detail::kExpHigh<T> : x;
  auto [n, r] = detail::reduce_exp(x);
  T y = T(1) + (r + r * r * detail::exp_tail(r));
  // 2^n in two factors: n may lie outside the range of exponents.
  T half = round_small(n * T(0.5));
  return y * pow2(half) * pow2(n - half);
}

/// e^x - 1, exact for small x too.
template <class T>
[[gnu::always_inline]] inline T expm1(T x) {
  T y = x < T(-40) ? T(-40) : x;
  y = y > detail::kExpHigh<T> ? detail::kExpHigh<T> : y;
  auto [n, r] = detail::reduce_exp(y);
  T p = r + r * r * detail::exp_tail(r);
  T half = pow2(n - T(1));  // 2^n itself may overflow
  y = T(2) * (half * p + (half - T(0.5)));
  return x == T(0) ? x : y;  // keeps -0
}

/// 1 / (1 + e^-x), down to denormal results.
template <class T>
[[gnu::always_inline]] inline T sigmoid(T x) {
  T e = exp(-abs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|); the latter is ln 2 + log(1 + (e^-|x| - 1) / 2) where
/// that argument is the smaller one.
template <class T>
[[gnu::always_inline]] inline T softplus(T x) {
  T e = exp(-abs(x));
  bool half = e > T(0.41421356);
  T y = detail::log_sum(half ? T(1) : T(0), half ? T(0.5) * (e - T(1)) : e, T(0));
  return (x > T(0) ? x : T(0)) + y;
}

/// Hyperbolic tangent: (e^2x - 1) / (e^2x + 1) with the sign taken off.
template <class T>
[[gnu::always_inline]] inline T tanh(T x) {
  T a = abs(x);
  T e = expm1(a > T(20) ? T(40) : T(2) * a);
  return with_sign(e / (e + T(2)), x);
}

}  // namespace tern::vmath
