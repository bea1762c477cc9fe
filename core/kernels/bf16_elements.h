// Numbers as operands of products in bf16 are kept: half as large. Inside of core only.
#pragma once

#include <bit>
#include <cstdint>

#include "tern/core/kernels/matrix.h"

namespace tern::kernels {

/// y[i] = x[i] as products in bf16 round it: to nearest, ties to even. What they read as zero
/// though it is not (below 1.2e-38) becomes the smallest number, which they read as zero, too: so
/// whether an element is 0 stays known.
void round_to_bf16(const float* x, Bf16* y, int64_t n);

[[gnu::always_inline]] inline float widened(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

/// Of other numbers: themselves.
template <class T>
[[gnu::always_inline]] inline T widened(T x) {
  return x;
}

/// y[i] = x[i].
void widen(const Bf16* x, float* y, int64_t n);

}  // namespace tern::kernels
