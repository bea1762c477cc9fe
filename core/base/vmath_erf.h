// The error function and GELU. Method: a polynomial near 0; else erf(x) = 1 - exp(-g(x)), where the
// polynomial g = -log(erfc) is fitted so that the error of the result is uniform. The float
// polynomials are N. Juffa's.
#pragma once

#include "tern/core/base/vmath_exp.h"

namespace tern::vmath {
namespace detail {

/// erf(a) / a - 1 for z = a^2, 0 <= a <= kErfNear.
[[gnu::always_inline]] inline float erf_near(float z) {
  return poly(z, 1.28379166e-1f, -3.76125336e-1f, 1.12819925e-1f, -2.67681349e-2f, 4.99119423e-3f,
              -5.96761703e-4f);
}

[[gnu::always_inline]] inline double erf_near(double z) {
  return poly(z, 0.1283791670955126, -0.3761263890318375, 0.11283791670954879,
              -0.026866170645076792, 0.0052239776248180145, -0.000854832698083379,
              0.0001205533111164271, -1.4925595266831182e-05, 1.6461000484121368e-06,
              -1.6350312701054695e-07, 1.4659775274047431e-08, -1.1372848856791657e-09,
              5.957176147748883e-11);
}

/// -log(1 - erf(a)) for a from kErfNear to where erf is 1.
[[gnu::always_inline]] inline float erf_far(float a) {
  float p = poly(a, 1.28717512e-1f, 6.34846687e-1f, 1.06777877e-1f, -2.42546219e-2f, 3.88396438e-3f,
                 -3.83197126e-4f, 1.72853470e-5f);
  return a + a * p;
}

[[gnu::always_inline]] inline double erf_far(double a) {
  return poly(a, 5.033470804950935e-07, 1.128374084785948, 0.6366436486095056, 0.10270338421217336,
              -0.018990076055296456, -0.000410767733062101, 0.0019160874584166928,
              -0.0007707581486424553, 0.0001351221488160523, 2.0231379681479856e-05,
              -2.2808862406668874e-05, 8.663041331538825e-06, -2.1347152655989305e-06,
              3.7313314308894293e-07, -4.640103631776926e-08, 3.932327135635614e-09,
              -2.043915066992869e-10, 4.926003256213719e-12);
}

template <class T>
constexpr T kErfNear = sizeof(T) == 4 ? T(0.927734375) : T(1);
template <class T>
constexpr T kErfOne = sizeof(T) == 4 ? T(4) : T(6);

/// 1 - erf(a) for a from kErfNear to kErfOne: exp without its cases of small and large arguments.
template <class T>
[[gnu::always_inline]] inline T erfc_far(T a) {
  const Reduced<T> e = reduce_exp(-erf_far(a));
  return (T(1) + (e.high + exp_rest(e))) * power_of(e, 0);
}

}  // namespace detail

/// The error function.
template <class T>
[[gnu::always_inline]] inline T erf(T x) {
  T a = abs(x);
  a = a > detail::kErfOne<T> ? detail::kErfOne<T> : a;
  T inner = a + a * detail::erf_near(a * a);
  T outer = T(1) - detail::erfc_far(a);
  return with_sign(a > detail::kErfNear<T> ? outer : inner, x);
}

/// x P(X <= x) for X standard normal: x/2 (1 + erf(x / sqrt(2))).
template <class T>
[[gnu::always_inline]] inline T gelu(T x) {
  T half = T(0.5) * x;
  T y = half + half * erf(x * T(0.70710678118654752440));
  return x == -kInf<T> ? T(-0.0) : y;
}

/// The tanh approximation x/2 (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), as x sigmoid(2 ...).
template <class T>
[[gnu::always_inline]] inline T gelu_tanh(T x) {
  constexpr T kLinear = T(2 * 0.79788456080286535588);
  constexpr T kCubic = T(2 * 0.79788456080286535588 * 0.044715);
  T y = x * sigmoid(x * (kLinear + kCubic * (x * x)));
  return x == -kInf<T> ? T(-0.0) : y;
}

}  // namespace tern::vmath
