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

/// The upper half of the f32 that is nearest among those whose lower half is 0, ties to even; a NaN
/// stays one.
[[gnu::always_inline]] inline uint32_t nearest_bf16(uint32_t bits) {
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return nan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

/// Whether products in bf16 read an f32 of these bits as zero.
[[gnu::always_inline]] inline bool reads_as_zero(uint32_t bits) {
  return (bits & 0x7fffffffu) < 0x00800000u;
}

[[gnu::always_inline]] inline float widened(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

/// Of other numbers: themselves.
template <class T>
[[gnu::always_inline]] inline T widened(T x) {
  return x;
}

/// As products in bf16 read it.
[[gnu::always_inline]] inline float as_factor(Bf16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  return std::bit_cast<float>(reads_as_zero(bits) ? bits & 0x80000000u : bits);
}
[[gnu::always_inline]] inline float as_factor(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>(reads_as_zero(bits) ? bits & 0x80000000u : nearest_bf16(bits) << 16);
}

/// y[i] = x[i].
void widen(const Bf16* x, float* y, int64_t n);

}  // namespace tern::kernels
