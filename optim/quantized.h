// Numbers of 8 bits with a scale a block: dynamic block-wise quantisation (Dettmers et al. 2022,
// "8-bit Optimizers via Block-wise Quantization"). Inside of optim only.
//
// A number is scale * table[code], where scale is the largest absolute value of its block. The
// table ("dynamic tree" quantisation, Dettmers 2016) has 0, 1 and seven decades below 1, of which
// each has twice as many values as the one below it, in even steps: an error of at most 1.5 % of
// the largest, and 45 % of what is a million times smaller.
//
//   decade i = 0 ... 6:  10^(i-6) (0.1 + 0.9 (k + 1/2) / n),  k = 0 ... n-1
//   n = 2^(i+1) without a sign; 2^i with one, and the same values below 0, -1 left out
//
// Codes are in the order of their values.
#pragma once

#include <cstdint>

namespace tern::optim {

constexpr int64_t kQuantizedBlock = 256;
/// Parameters of fewer elements keep a state of 32 bits: they cost little.
constexpr int64_t kLeastQuantized = 4096;
/// Elements that are unpacked at a time.
constexpr int64_t kUnpacked = 16 * kQuantizedBlock;

/// What 0 is stored as.
constexpr uint8_t zero_code(bool non_negative) { return non_negative ? 0 : 127; }

/// n numbers from the start of a block on, and the scales of their blocks.
template <class T>
void dequantize(bool non_negative, const uint8_t* codes, const float* scales, T* out, int64_t n);

/// The nearest values, but without a sign nothing above 0 becomes 0: steps divide by the root of
/// such numbers. Blocks whose largest is below 1e-36 become 0; one with an infinite number becomes
/// infinite, since 0 times such a scale is NaN.
template <class T>
void quantize(bool non_negative, const T* x, int64_t n, uint8_t* codes, float* scales);

}  // namespace tern::optim
