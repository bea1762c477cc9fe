// Helpers of the functions of vmath.h: bits of floating-point numbers, polynomials, rounding.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace tern::vmath {

template <class T>
using BitsOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

template <class T>
[[gnu::always_inline]] inline BitsOf<T> to_bits(T x) {
  return std::bit_cast<BitsOf<T>>(x);
}

template <class T>
[[gnu::always_inline]] inline T from_bits(BitsOf<T> b) {
  return std::bit_cast<T>(b);
}

template <class T>
constexpr T kInf = std::numeric_limits<T>::infinity();
template <class T>
constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
/// Number of stored mantissa bits: 23 and 52.
template <class T>
constexpr int kMantissa = std::numeric_limits<T>::digits - 1;
/// The bias of the exponent: 127 and 1023.
template <class T>
constexpr int kBias = std::numeric_limits<T>::max_exponent - 1;
/// Adding 1.5 * 2^mantissa rounds to an integer and puts it into the low bits.
template <class T>
constexpr T kRounder = sizeof(T) == 4 ? T(0x1.8p23) : T(0x1.8p52);

/// c0 + c1 x + c2 x^2 + ...
template <class T>
[[gnu::always_inline]] inline T poly(T, T c0) {
  return c0;
}

template <class T, class... Rest>
[[gnu::always_inline]] inline T poly(T x, T c0, Rest... rest) {
  return c0 + x * poly(x, rest...);
}

template <class T>
[[gnu::always_inline]] inline T abs(T x) {
  return from_bits<T>(to_bits(x) & (~BitsOf<T>{0} >> 1));
}

/// The magnitude x >= 0 with the sign of s.
template <class T>
[[gnu::always_inline]] inline T with_sign(T x, T s) {
  return from_bits<T>(to_bits(x) | (to_bits(s) & ~(~BitsOf<T>{0} >> 1)));
}

}  // namespace tern::vmath
