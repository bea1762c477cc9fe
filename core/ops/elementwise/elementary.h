// More elementwise functions. The rules of ops.h hold: any layout, broadcasting, f32 results from
// integers where they are fractional, gradients to second order. Names, arguments and gradients are
// PyTorch's. Angles are in radians.
#pragma once

#include <optional>

#include "tern/core/ops/ops.h"

namespace tern {

// ---- Trigonometric and hyperbolic functions, logarithms --------------------------------------
Tensor tan(const Tensor& x);
Tensor atan(const Tensor& x);
/// The angle of the point (x, y), in [-pi, pi], with the sign of y. Gradient 0 at the origin.
Tensor atan2(const Tensor& y, const Tensor& x);
Tensor sinh(const Tensor& x);
Tensor cosh(const Tensor& x);
Tensor log2(const Tensor& x);
Tensor log10(const Tensor& x);
Tensor logaddexp(const Tensor& a, const Tensor& b);   ///< log(e^a + e^b)
Tensor logaddexp2(const Tensor& a, const Tensor& b);  ///< log2(2^a + 2^b)

// ---- Error and gamma functions ---------------------------------------------------------------
Tensor erfc(const Tensor& x);    ///< 1 - erf(x), accurate for large x too
Tensor erfinv(const Tensor& x);  ///< inverse of erf; infinite at -1 and 1, NaN beyond
Tensor lgamma(const Tensor& x);  ///< log |gamma(x)|
Tensor digamma(const Tensor& x);
/// The n-th derivative of digamma, n >= 0.
Tensor polygamma(int64_t n, const Tensor& x);

// ---- Rounding, clamping, mixing --------------------------------------------------------------
Tensor trunc(const Tensor& x);  ///< towards 0
/// a - b trunc(a / b), with the sign of a, as in C. An integer divisor of 0 is an error.
Tensor fmod(const Tensor& a, const Tensor& b);
Tensor fmod(const Tensor& a, Scalar b);
/// a + weight (b - a).
Tensor lerp(const Tensor& a, const Tensor& b, double weight);
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
/// Replaces NaN, inf and -inf. By default infinities become the type's limits.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {});
/// min(max(x, low), high). Undefined: no bound. x and an equal bound share the gradient.
Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high);
Tensor isinf(const Tensor& x);  ///< u8

// ---- Bits: integers of one type, or u8 with i64 ----------------------------------------------
Tensor bitwise_and(const Tensor& a, const Tensor& b);
Tensor bitwise_or(const Tensor& a, const Tensor& b);
Tensor bitwise_xor(const Tensor& a, const Tensor& b);
// These combine masks: (x > 0) & (x < 1).
inline Tensor operator&(const Tensor& a, const Tensor& b) { return bitwise_and(a, b); }
inline Tensor operator|(const Tensor& a, const Tensor& b) { return bitwise_or(a, b); }
inline Tensor operator^(const Tensor& a, const Tensor& b) { return bitwise_xor(a, b); }
/// Flips every bit: 1 becomes 254 in u8. To invert a mask use logical_not.
Tensor bitwise_not(const Tensor& x);
/// a 2^b, and a / 2^b rounded down. A shift by all bits of the type or more gives 0 (a right shift
/// of a negative number gives -1). A negative shift is an error.
Tensor bitwise_left_shift(const Tensor& a, const Tensor& b);
Tensor bitwise_right_shift(const Tensor& a, const Tensor& b);

}  // namespace tern
