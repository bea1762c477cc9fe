// A check of betas and steps of moving averages, which the optimizers share. Inside of optim only.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"
#include "tern/optim/optimizer.h"

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

/// A step of Adam or a variant: weight decay, which acts on the parameter if it is decoupled and
/// else through the gradient, both moments, and then p -= step(g, m, v).
///   m = lerp(m, g, 1-b1); v = b2 v + (1-b2) g^2
template <class T, class Step>
void with_moments(const Piece<T>& piece, const auto& c, bool decoupled, Step step) {
  const T keep = decoupled ? T(1 - piece.lr * piece.weight_decay) : T(1);
  const T decay = decoupled ? T(0) : T(piece.weight_decay);
  const T w1 = T(1 - c.beta1), b2 = T(c.beta2), w2 = T(1 - c.beta2);
  forget_all_if_0(b2, piece.state[1], piece.count);
  simd([=, p = piece.parameter, grad = piece.gradient, m = piece.state[0], v = piece.state[1],
        n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      T g = grad[i] + decay * p[i];
      T mi = averaged(m[i], g, w1);
      T vi = b2 * v[i] + w2 * g * g;
      m[i] = mi;
      v[i] = vi;
      p[i] = keep * p[i] - step(g, mi, vi);
    }
  });
}

}  // namespace tern::optim
