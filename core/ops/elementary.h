// More functions of every element, beside those of ops.h, and with its rules: any layout, shapes
// that broadcast, integers that give f32 where the result is a fraction, gradients to second order.
// Names, arguments and gradients are PyTorch's. Angles are in radians.
#pragma once

#include <optional>

#include "tern/core/ops/ops.h"

namespace tern {

// ---- Trigonometric and hyperbolic functions, logarithms --------------------------------------
Tensor tan(const Tensor& x);
Tensor atan(const Tensor& x);
/// The angle of the point (x, y) in [-pi, pi], with the sign of y. Gradient 0 at the origin.
Tensor atan2(const Tensor& y, const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor logaddexp(const Tensor& a, const Tensor& b);  ///< log(e^a + e^b)

// ---- Error and gamma functions ---------------------------------------------------------------
Tensor erfc(const Tensor& x);    ///< 1 - erf(x), exact for large x too
Tensor erfinv(const Tensor& x);  ///< erf(erfinv(x)) = x; infinite at -1 and 1, NaN beyond
Tensor lgamma(const Tensor& x);  ///< log |gamma(x)|
Tensor digamma(const Tensor& x);
/// The derivative number n >= 0 of digamma.
Tensor polygamma(int64_t n, const Tensor& x);

// ---- Rounding, choosing, mixing --------------------------------------------------------------
Tensor trunc(const Tensor& x);  ///< towards 0
/// a - b trunc(a / b): the sign of the dividend, as in C. Integers: an error for a divisor of 0.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, Scalar b);
/// a + weight (b - a).
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
/// NaN, inf and -inf replaced; by default infinities become the ends of the type.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});
/// min(max(x, low), high); an undefined bound is none. Where x is a bound they share the gradient.
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);
Tensor isinf(const Tensor& x);  ///< u8

// ---- Bits: integers of one type, or u8 with i64 ----------------------------------------------
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
// Of masks: (x > 0) & (x < 1).
inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
/// Every bit turned: 1 becomes 254 in u8. A mask is turned by logical_not.
Tensor bitwise_not(const Tensor& x);
/// a 2^b, and a / 2^b rounded down. By as many bits as the type has or more: 0 (or -1, of what is
/// negative and shifted to the right); by a negative number: an error.
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);

}  // namespace tern
