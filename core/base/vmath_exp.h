// Exponentials and related functions. Method: x = n ln 2 + r with |r| <= ln 2 / 2, a minimax
// polynomial in r, and powers of 2 built from bits. For accurate last bits r stays in two parts
// until the polynomial's large terms are added.
#pragma once

#include "tern/core/base/vmath_base.h"
#include "tern/core/base/vmath_log.h"

namespace tern::vmath {
namespace detail {

/// x = n ln 2 + r with r = high - low. `high` subtracts n times the leading digits of ln 2, without
/// rounding; `low` is n times the other digits. The low bits of `biased` are n + 2 bias. Its other
/// bits are shifted out where it becomes an exponent.
template <class T>
struct Reduced {
  BitsOf<T> biased;
  T high, low, r;
};

template <class T>
[[gnu::always_inline]] inline Reduced<T> reduce_exp(T x) {
  constexpr bool kSingle = sizeof(T) == 4;
  constexpr T kLn2High = kSingle ? T(0.693359375) : T(6.93147180369123816490e-01);
  constexpr T kLn2Low = kSingle ? T(-2.12194440e-4) : T(1.90821492927058770002e-10);
  constexpr T kShift = kRounder<T> + T(2 * kBias<T>);
  const T shifted = x * T(1.4426950408889634074) + kShift;
  const T n = shifted - kShift;
  const T high = x - n * kLn2High, low = n * kLn2Low;
  return {to_bits(shifted), high, low, high - low};
}

/// (e^r - 1 - r) / r^2. Errors of e^r: 5e-9 and 1e-17, half of that where e^r < 1.
[[gnu::always_inline]] inline float exp_tail(float r) {
  return poly(r, 0.49999991059303284f, 0.16666510701179504f, 0.041668519377708435f,
              0.008369866758584976f, 0.0013830013340339065f);
}

[[gnu::always_inline]] inline double exp_tail(double r) {
  return poly(r, 0.5000000000000008, 0.16666666666665939, 0.041666666666544776,
              0.008333333333612835, 0.0013888888942430442, 0.00019841269549133246,
              2.4801492036442184e-05, 2.7557338022733042e-06, 2.763128559991463e-07,
              2.5132933057104204e-08);
}

/// e^r - 1 - high, which is small compared to 1.
template <class T>
[[gnu::always_inline]] inline T exp_rest(const Reduced<T>& x) {
  return x.r * x.r * exp_tail(x.r) - x.low;
}

/// 2^(n + shift) for a reduced argument, if that is a normal number; 2^-n likewise.
template <class T>
[[gnu::always_inline]] inline T power_of(const Reduced<T>& x, int shift) {
  return from_bits<T>((x.biased + static_cast<BitsOf<T>>(shift - kBias<T>)) << kMantissa<T>);
}

template <class T>
[[gnu::always_inline]] inline T inverse_power_of(const Reduced<T>& x, int shift) {
  return from_bits<T>((static_cast<BitsOf<T>>(3 * kBias<T> + shift) - x.biased) << kMantissa<T>);
}

/// Arguments below kExpLow give 0, arguments above kExpHigh give infinity. Between them n stays in
/// range.
template <class T>
constexpr T kExpLow = sizeof(T) == 4 ? T(-104) : T(-746);
template <class T>
constexpr T kExpHigh = sizeof(T) == 4 ? T(89) : T(710);

/// P(z) in tanh(a) = a + a z P(z), z = a^2, for a <= kTanhNear.
[[gnu::always_inline]] inline float tanh_near(float z) {
  return poly(z, -0.33333298563957214f, 0.13332240283489227f, -0.05385340377688408f,
              0.021305684000253677f, -0.007412669714540243f, 0.0015860948478803039f);
}

[[gnu::always_inline]] inline double tanh_near(double z) {
  return poly(z, -0.33333333333333043, 0.13333333333297226, -0.05396825395253947,
              0.021869488190810492, -0.008863231038416864, 0.003592090334448078,
              -0.0014556193229227775, 0.0005891677844955732, -0.00023668174026211683,
              9.192883727929611e-05, -3.2043637306224956e-05, 8.541424351306454e-06,
              -1.2316189890439184e-06);
}

/// Above this, rounding 2 / (e^2a + 1) costs less accuracy than rounding a z P(z) does below it.
template <class T>
constexpr T kTanhNear = T(0.8);

}  // namespace detail

/// e^x, down to denormal results.
template <class T>
[[gnu::always_inline]] inline T exp(T x) {
  x = x < detail::kExpLow<T> ? detail::kExpLow<T> : x;
  x = x > detail::kExpHigh<T> ? detail::kExpHigh<T> : x;
  const detail::Reduced<T> e = detail::reduce_exp(x);
  const T y = T(1) + (e.high + detail::exp_rest(e));
  // Two factors, since n may exceed the range of exponents.
  const BitsOf<T> half = e.biased >> 1;
  return y * from_bits<T>(half << kMantissa<T>) * from_bits<T>((e.biased - half) << kMantissa<T>);
}

/// e^x - 1 = 2^n ((1 - 2^-n + high) + rest), accurate for small x too.
template <class T>
[[gnu::always_inline]] inline T expm1(T x) {
  T y = x < T(-40) ? T(-40) : x;
  y = y > detail::kExpHigh<T> ? detail::kExpHigh<T> : y;
  const detail::Reduced<T> e = detail::reduce_exp(y);
  const T above = (T(1) - T(0.5) * detail::inverse_power_of(e, 1)) + e.high;
  // 2^n itself may overflow.
  y = T(2) * (detail::power_of(e, -1) * (above + detail::exp_rest(e)));
  return x == T(0) ? x : y;  // keeps -0
}

/// 1 / (1 + e^-x), down to denormal results.
template <class T>
[[gnu::always_inline]] inline T sigmoid(T x) {
  T e = exp(-abs(x));
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}

/// log(1 + e^x) = max(x, 0) + log(1 + e^-|x|). The latter is computed as ln 2 + log(1 + (e^-|x| -
/// 1) / 2) if that argument is smaller.
template <class T>
[[gnu::always_inline]] inline T softplus(T x) {
  T e = exp(-abs(x));
  bool half = e > T(0.41421356);
  T y = detail::log_sum(half ? T(1) : T(0), half ? T(0.5) * (e - T(1)) : e, T(0));
  return (x > T(0) ? x : T(0)) + y;
}

/// Hyperbolic tangent: a polynomial near 0, else 1 - 2 / (e^2a + 1), whose second term is small.
/// With e^2a = 2^n (1 + high + rest) that term is 2^(1-n) / ((1 + 2^-n + high) + rest), where the
/// inner sum is exact.
template <class T>
[[gnu::always_inline]] inline T tanh(T x) {
  const T a = abs(x), z = a * a;
  const T inner = a + a * z * detail::tanh_near(z);
  const T end = a > T(20) ? T(20) : a;
  const detail::Reduced<T> e = detail::reduce_exp(end + end);
  const T s = detail::inverse_power_of(e, 1);
  const T outer = T(1) - s / (((T(1) + T(0.5) * s) + e.high) + detail::exp_rest(e));
  return with_sign(a < detail::kTanhNear<T> ? inner : outer, x);
}

}  // namespace tern::vmath
