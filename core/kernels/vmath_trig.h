// Sines and cosines. Polynomials on [-pi/4, pi/4]: Cephes' sinf and cosf (Moshier), fdlibm's
// k_sin.c and k_cos.c (Sun Microsystems, 1993).
#pragma once

#include "tern/core/kernels/vmath_base.h"

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

/// Turns (s, c) by q quarters; q is an integer held in the low bits of `quarters`.
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

}  // namespace detail

/// s = sin(2 pi u) and c = cos(2 pi u) for 0 <= u <= 1.
template <class T>
[[gnu::always_inline]] inline void sincos_turns(T u, T& s, T& c) {
  T shifted = T(4) * u + kRounder<T>;
  T rest = T(4) * u - (shifted - kRounder<T>);
  detail::sincos_eighth(rest * T(1.57079632679489661923), s, c);
  detail::turn(to_bits(shifted), s, c);
}

}  // namespace tern::vmath
