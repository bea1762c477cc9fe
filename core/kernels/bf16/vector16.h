// 16 floats in an AVX-512 register, as a compiler vector type. Inside of core only.
#pragma once

#if defined(__x86_64__)

#include "tern/core/kernels/vectors.h"

namespace tern::kernels {

/// 16 floats in one register.
using Vector = Vector16;
constexpr int kLanes = 16;

[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline Vector load(const float* p) {
  Vector v;
  load(v, p);
  return v;
}
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline void store(float* p, Vector v) {
  store<Vector>(p, v);
}

}  // namespace tern::kernels

#endif
