// 8-bit numbers with one scale per block: dynamic block-wise quantisation (Dettmers et al. 2022,
// "8-bit Optimizers via Block-wise Quantization"). Inside of optim only.
//
// A number is scale * table[code], where scale is the largest absolute value of its block. The
// table ("dynamic tree" quantisation, Dettmers 2016) has 0, 1 and seven decades below 1. Each
// decade has twice as many values as the one below it, in even steps: the error is at most 1.5 %
// for numbers near the largest, and 45 % for numbers a million times smaller.
//
//   decade i = 0 ... 6:  10^(i-6) (0.1 + 0.9 (k + 1/2) / n),  k = 0 ... n-1
//   n = 2^(i+1) without a sign; 2^i with one, and the same values below 0, but no -1
//
// The codes have the order of their values.
#pragma once

#include <cstdint>

namespace tern::optim {

constexpr int64_t kQuantizedBlock = 256;
/// Parameters with fewer elements keep a 32-bit state: it takes little memory.
constexpr int64_t kLeastQuantized = 4096;
/// Elements unpacked at once.
constexpr int64_t kUnpacked = 16 * kQuantizedBlock;

/// The code of 0.
constexpr uint8_t zero_code(bool non_negative) { return non_negative ? 0 : 127; }

/// Unpacks n numbers, which begin at the start of a block, with the scales of their blocks.
template <class T>
void dequantize(bool non_negative, const uint8_t* codes, const float* scales, T* out, int64_t n);

/// Takes the nearest values. Without a sign, a number above 0 never becomes 0: steps divide by the
/// root of such numbers. A block whose largest number is below 1e-36 becomes 0. A block with an
/// infinite number becomes infinite, since 0 times an infinite scale is NaN.
template <class T>
void quantize(bool non_negative, const T* x, int64_t n, uint8_t* codes, float* scales);

}  // namespace tern::optim
