// Functions for formulas that are written once for numbers and Tensors (see elementwise.h). ops.h
// has them for Tensors; these are for numbers. In a formula over T write constants as
// Constant<T>(0.5).
#pragma once

#include <cmath>

#include "tern/core/base/vmath.h"
#include "tern/core/ops/ops.h"

namespace tern::formula {

using vmath::abs;
using vmath::cos;
using vmath::erf;
using vmath::exp;
using vmath::expm1;
using vmath::gelu;
using vmath::gelu_tanh;
using vmath::log;
using vmath::log1p;
using vmath::pow;
using vmath::rsqrt;
using vmath::sigmoid;
using vmath::sin;
using vmath::softplus;
using vmath::tanh;

/// A constant to combine with a T without changing its type.
template <class T>
using Constant = std::conditional_t<std::is_same_v<T, Tensor>, Scalar, T>;

template <class T>
concept Number = std::is_arithmetic_v<T>;

// clang-format off
[[gnu::always_inline]] inline bool eq(Number auto a, Number auto b) { return a == b; }
[[gnu::always_inline]] inline bool ne(Number auto a, Number auto b) { return a != b; }
[[gnu::always_inline]] inline bool lt(Number auto a, Number auto b) { return a < b; }
[[gnu::always_inline]] inline bool le(Number auto a, Number auto b) { return a <= b; }
[[gnu::always_inline]] inline bool gt(Number auto a, Number auto b) { return a > b; }
[[gnu::always_inline]] inline bool ge(Number auto a, Number auto b) { return a >= b; }
[[gnu::always_inline]] inline bool logical_and(bool a, bool b) { return a & b; }
[[gnu::always_inline]] inline bool logical_or(bool a, bool b) { return a | b; }
[[gnu::always_inline]] inline bool logical_not(bool a) { return !a; }
// clang-format on

template <Number T>
[[gnu::always_inline]] inline T where(bool condition, T a, T b) {
  return condition ? a : b;
}

/// The smaller one; NaN if either is.
template <Number T>
[[gnu::always_inline]] inline T minimum(T a, T b) {
  return ((a != a) | (a < b)) ? a : b;
}

template <Number T>
[[gnu::always_inline]] inline T maximum(T a, T b) {
  return ((a != a) | (a > b)) ? a : b;
}

/// -1, 0 or 1; 0 for NaN.
template <Number T>
[[gnu::always_inline]] inline T sign(T x) {
  if constexpr (std::is_unsigned_v<T>) return x != 0;
  return static_cast<T>((x > T{0}) - (x < T{0}));
}

}  // namespace tern::formula
