// Sines and cosines. Polynomials on [-pi/4, pi/4]: Cephes' sinf and cosf (Moshier), fdlibm's
// k_sin.c and k_cos.c (Sun Microsystems, 1993).
#pragma once

#include <array>
#include <cmath>

#include "tern/core/base/vmath_base.h"

namespace tern::vmath {
namespace detail {

/// sin(r) and cos(r) for |r| <= pi/4.
[[gnu::always_inline]] inline void sincos_eighth(float r, float& s, float& c) {
  float z = r * r;
  s = r + r * z * poly(z, -1.6666654611e-1f, 8.3321608736e-3f, -1.9515295891e-4f);
  c = 1.0f -
      (0.5f * z -
       z * z * poly(z, 4.166664568298827e-2f, -1.388731625493765e-3f, 2.443315711809948e-5f));
}

[[gnu::always_inline]] inline void sincos_eighth(double r, double& s, double& c) {
  double z = r * r;
  s = r + r * z *
              poly(z, -1.66666666666666324348e-01, 8.33333333332248946124e-03,
                   -1.98412698298579493134e-04, 2.75573137070700676789e-06,
                   -2.50507602534068634195e-08, 1.58969099521155010221e-10);
  c = 1.0 - (0.5 * z - z * z *
                           poly(z, 4.16666666666666019037e-02, -1.38888888888741095749e-03,
                                2.48015872894767294178e-05, -2.75573143513906633035e-07,
                                2.08757232129817482790e-09, -1.13596475577881948265e-11));
}

/// Rotates (s, c) by q quarter turns; the low bits of `quarters` hold the integer q.
template <class T>
[[gnu::always_inline]] inline void turn(BitsOf<T> quarters, T& s, T& c) {
  using U = BitsOf<T>;
  constexpr int kTop = 8 * sizeof(T) - 1;
  const U odd = U{0} - (quarters & 1);
  const U s_bits = (to_bits(s) & ~odd) | (to_bits(c) & odd);
  const U c_bits = (to_bits(c) & ~odd) | (to_bits(s) & odd);
  s = from_bits<T>(s_bits ^ ((quarters >> 1) << kTop));
  c = from_bits<T>(c_bits ^ (((quarters + 1) >> 1) << kTop));
}

/// 2/pi = 0.a2f9836e... in base 16, for reduction after Payne and Hanek (1983).
constexpr std::array<uint32_t, 8> kTwoOverPi = {0xa2f9836e, 0x4e441529, 0xfc2757d1, 0xf534ddc0,
                                                0xdb629599, 0x3c439041, 0xfe5163ab, 0xdebbc561};

/// Bits first ... first + count - 1 of 2/pi as an integer; bit 1 has the value 1/2, count <= 53.
constexpr uint64_t two_over_pi_bits(int first, int count) {
  uint64_t value = 0;
  for (int i = first; i < first + count; ++i) {
    bool bit = i >= 1 && i <= 256 && (kTwoOverPi[(i - 1) / 32] >> (31 - (i - 1) % 32) & 1);
    value = 2 * value + bit;
  }
  return value;
}

/// 2^e 2/pi modulo 4 = a + b, for each exponent e + 150 of a float with integer mantissa. a is
/// rounded to 27 fractional bits; b is the rest, to 53 bits.
struct QuarterTurns {
  std::array<double, 256> a{}, b{};
};

constexpr double times_pow2(uint64_t value, int exponent) {
  double y = static_cast<double>(value);
  for (; exponent < 0; ++exponent) y *= 0.5;
  return y;
}

constexpr QuarterTurns make_quarter_turns() {
  QuarterTurns t;
  for (int i = 0; i < 255; ++i) {
    const int first = i - 150 - 1;
    const bool up = two_over_pi_bits(first + 29, 1) != 0;
    t.a[i] = times_pow2(two_over_pi_bits(first, 29) + up, -27);
    t.b[i] = times_pow2(two_over_pi_bits(first + 29, 53), -80) - (up ? 0x1p-27 : 0);
  }
  t.a[255] = kNan<double>;  // infinities and NaN
  return t;
}

inline constexpr QuarterTurns kQuarterTurns = make_quarter_turns();

/// Reduces |x| = q pi/2 + r for every float; the low bits hold q modulo 4. Of the two products with
/// a 24-bit mantissa, the first is exact and the second is below 1/16. So |r| <= 9/16 pi/2, and
/// where r nearly cancels the sum is exact.
struct QuarterRest {
  uint64_t q;
  double r;
};

[[gnu::always_inline]] inline QuarterRest reduce_quarter(float x) {
  const uint32_t bits = to_bits(abs(x));
  const uint32_t exponent = bits >> 23;
  const double m = static_cast<double>(static_cast<int32_t>((bits & 0x7fffff) | 0x800000));
  const double a = m * kQuarterTurns.a[exponent];
  const double shifted = a + kRounder<double>;
  const double rest = (a - (shifted - kRounder<double>)) + m * kQuarterTurns.b[exponent];
  return {to_bits(shifted), rest * 1.57079632679489661923};
}

/// sin(q pi/2 + r) for an integer q in the low bits of `quarters`. Computed in double, since r is
/// double. The minimax polynomials have errors of 1e-8 and 4e-10.
[[gnu::always_inline]] inline float sin_quarters(uint64_t quarters, double r) {
  const double z = r * r;
  const double s =
      r + r * z * poly(z, -0.16666642090359607, 0.008331451160876356, -0.0001942866669173941);
  const double c =
      (1.0 - 0.5 * z) +
      z * z * poly(z, 0.0416666234542678, -0.0013886349086756082, 2.4333958936806896e-05);
  const uint64_t odd = uint64_t{0} - (quarters & 1);
  const uint64_t y = (to_bits(s) & ~odd) | (to_bits(c) & odd);
  return static_cast<float>(from_bits<double>(y ^ ((quarters >> 1) << 63)));
}

}  // namespace detail

/// Sine of x in radians, for every float. For double: calls the C library for each number.
[[gnu::always_inline]] inline float sin(float x) {
  auto [q, r] = detail::reduce_quarter(x);
  const float s = detail::sin_quarters(q, r);
  return abs(x) < 0x1p-12f ? x : from_bits<float>(to_bits(s) ^ (to_bits(x) & 0x80000000));
}

inline double sin(double x) { return std::sin(x); }

/// Cosine of x in radians, for every float. For double: calls the C library for each number.
[[gnu::always_inline]] inline float cos(float x) {
  auto [q, r] = detail::reduce_quarter(x);
  const float c = detail::sin_quarters(q + 1, r);
  return abs(x) < 0x1p-12f ? 1.0f : c;
}

inline double cos(double x) { return std::cos(x); }

/// s = sin(2 pi u) and c = cos(2 pi u) for 0 <= u <= 1.
template <class T>
[[gnu::always_inline]] inline void sincos_turns(T u, T& s, T& c) {
  T shifted = T(4) * u + kRounder<T>;
  T rest = T(4) * u - (shifted - kRounder<T>);
  detail::sincos_eighth(rest * T(1.57079632679489661923), s, c);
  detail::turn(to_bits(shifted), s, c);
}

}  // namespace tern::vmath
