// Operands of bf16 products, stored as bfloat16. Inside of core only.
#pragma once

#include <bit>
#include <cstdint>

#include "tern/core/kernels/products/matrix.h"

namespace tern::kernels {

constexpr int64_t kBf16Group = 32;  ///< places of k that products sum separately

/// y[i] = x[i] as bf16 products round it: to nearest, ties to even. Products read numbers below
/// 1.2e-38 as zero. Such numbers become the smallest number, which products also read as zero. So a
/// stored element is 0 only if x[i] is 0.
void round_to_bf16(const float* x, Bf16* y, int64_t n);

/// The nearest f32 whose lower half is 0 (ties to even), as its upper half. A NaN stays a NaN.
[[gnu::always_inline]] inline uint32_t nearest_bf16(uint32_t bits) {
  const bool nan = (bits & 0x7fffffffu) > 0x7f800000u;
  return nan ? bits >> 16 | 0x40u : (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}

/// Whether bf16 products read an f32 with these bits as zero.
[[gnu::always_inline]] inline bool reads_as_zero(uint32_t bits) {
  return (bits & 0x7fffffffu) < 0x00800000u;
}

[[gnu::always_inline]] inline float widened(Bf16 x) {
  return std::bit_cast<float>(static_cast<uint32_t>(x.bits) << 16);
}

/// Other types are returned unchanged.
template <class T>
[[gnu::always_inline]] inline T widened(T x) {
  return x;
}

/// The value that bf16 products read.
[[gnu::always_inline]] inline float as_factor(Bf16 x) {
  const uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  return std::bit_cast<float>(reads_as_zero(bits) ? bits & 0x80000000u : bits);
}
[[gnu::always_inline]] inline float as_factor(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>(reads_as_zero(bits) ? bits & 0x80000000u : nearest_bf16(bits) << 16);
}

/// A sum as bf16 products give it: zero if it is below the smallest normal number.
[[gnu::always_inline]] inline float flushed(float x) {
  constexpr float kLeast = 0x1p-126f;
  return x < kLeast && x > -kLeast ? x * 0.f : x;
}

/// y[i] = x[i].
void widen(const Bf16* x, float* y, int64_t n);

}  // namespace tern::kernels
