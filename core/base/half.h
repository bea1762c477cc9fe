// Numbers of 16 bits with 11 significant bits (f16, IEEE binary16). Without branches, so that loops
// become vector code. Inside of tern only.
#pragma once

#include <bit>
#include <cstdint>

namespace tern {

/// An f16 as f32.
[[gnu::always_inline]] inline float half_to_float(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16, rest = half & 0x7fff;
  const auto subnormal = std::bit_cast<uint32_t>(static_cast<float>(rest) * 0x1p-24f);
  const uint32_t bias = rest >= 0x7c00 ? 255 - 31 : 127 - 15;  // infinity and NaN stay such
  const uint32_t normal = (rest << 13) + (bias << 23);
  return std::bit_cast<float>(sign | (rest < 0x400 ? subnormal : normal));
}

/// The nearest f16, ties to even. REQUIRES: |x| < 65520.
[[gnu::always_inline]] inline uint16_t float_to_half(float x) {
  const auto bits = std::bit_cast<uint32_t>(x);
  const uint32_t sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  // Adding 0.5, whose last bit is worth 2^-24 as that of a subnormal f16, rounds.
  const float whole = std::bit_cast<float>(rest) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(whole) - std::bit_cast<uint32_t>(0.5f);
  const uint32_t normal = (rest + 0xfff + (rest >> 13 & 1) - ((127 - 15) << 23)) >> 13;
  return static_cast<uint16_t>(sign | (rest < 0x38800000 ? subnormal : normal));
}

}  // namespace tern
