// Division rounded down, its remainder, and integer powers, for any element type. Method and
// special cases are PyTorch's (c10/util/generic_math.h). Inside of core only.
#pragma once

#include <cmath>
#include <type_traits>

#include "tern/core/kernels/elementwise/arithmetic.h"

namespace tern::kernels {

/// std::fmod. For floats it needs no loop over the quotient's bits if the quotient is small: then a
/// quotient in double is too large by at most 1, and the remainder is exact.
template <class T>
[[gnu::always_inline]] inline T fmod(T a, T b) {
  if constexpr (std::is_same_v<T, float>) {
    const double x = a, y = b, q = std::trunc(x / y);
    if (std::abs(q) < 0x1p29 && std::abs(y) < 0x1p128) {  // rarely false: a branch costs little
      double r = x - q * y;
      r += std::copysign((r < 0) != (x < 0) && r != 0 ? std::abs(y) : 0, x);
      return std::copysign(static_cast<float>(r), a);
    }
  }
  return std::fmod(a, b);
}

/// a - b * floor(a / b), with the sign of b. REQUIRES: integer b is not 0.
template <class T>
[[gnu::always_inline]] inline T remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T r = kernels::fmod(a, b);
    const bool other = (r != 0) & ((b < 0) != (r < 0));  // no branch: signs are random
    return other ? r + b : r;
  } else if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;  // the processor traps for the lowest number
    T r = a % b;
    return r != 0 && (b < 0) != (r < 0) ? r + b : r;
  } else {
    return static_cast<T>(a % b);
  }
}

/// floor(a / b). The lowest integer by -1 wraps around. REQUIRES: integer b is not 0.
template <class T>
T floor_divide(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b == 0) return a / b;
    T r = kernels::fmod(a, b);
    T q = (a - r) / b;
    if (r != 0 && (b < 0) != (r < 0)) q -= 1;
    if (q == 0) return std::copysign(T(0), a / b);
    T down = std::floor(q);
    return q - down > T(0.5) ? down + 1 : down;
  } else if constexpr (std::is_signed_v<T>) {
    if (b == -1) return Subtract()(T(0), a);
    return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
  } else {
    return static_cast<T>(a / b);
  }
}

/// a^b for integers, wrapping around. A negative b gives 1/a^-b truncated, and 0 for a = 0.
template <class T>
T integer_power(T a, T b) {
  if constexpr (std::is_signed_v<T>) {
    if (b < 0) return a == 1 || (a == -1 && b % 2 == 0) ? 1 : a == -1 ? -1 : 0;
  }
  T y = 1;
  for (; b != 0; b = static_cast<T>(b / 2)) {
    if (b % 2 != 0) y = Multiply()(y, a);
    a = Multiply()(a, a);
  }
  return y;
}

}  // namespace tern::kernels
