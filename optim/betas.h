// A check of betas and steps of moving averages, which the optimizers share. Inside of optim only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tern/core/base/error.h"

namespace tern::optim {

inline void check_betas(const char* name, double beta1, double beta2, double eps) {
  check(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1 && eps >= 0,
        "{}: betas must lie in [0, 1) and eps must not be negative; they are {}, {} and {}", name,
        beta1, beta2, eps);
}

/// m + w (x - m), and exactly x if w = 1: x minus a much larger m would lose the digits of x.
template <class T>
[[gnu::always_inline]] inline T averaged(T m, T x, T w) {
  const T moved = m + w * (x - m);
  return w == T(1) ? x : moved;
}

/// Clears an average of squares if a step keeps a share of 0 of it: the squares may be infinite,
/// and 0 times infinity is NaN.
template <class T>
void forget_all_if_0(T share, T* squares, int64_t n) {
  if (share == T(0)) std::fill_n(squares, n, T(0));
}

}  // namespace tern::optim
