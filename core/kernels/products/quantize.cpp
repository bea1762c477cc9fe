// Rounds rows of x to 8 bits and of W to 8 or 4, in blocks with scales of their own, and packs W
// for products.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "tern/core/base/half.h"
#include "tern/core/base/simd.h"
#include "tern/core/kernels/products/gemm_quantized.h"

namespace tern::kernels {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/// x rounded to an integer, ties to even, for |x| < 2^22.
[[gnu::always_inline]] inline float nearest(float x) {
  constexpr float kWhole = 12582912;  // 1.5 * 2^23: its neighbours differ by 1
  return (x + kWhole) - kWhole;
}

/// The largest magnitude; NaN if there is a NaN. Compares the bits, which are in the same order.
[[gnu::always_inline]] inline float largest_of(const float* x, int64_t n) {
  int32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) {
    const int32_t bits = std::bit_cast<int32_t>(x[i]) & 0x7fffffff;
    largest = bits > largest ? bits : largest;
  }
  return std::bit_cast<float>(largest);
}

[[gnu::always_inline]] inline void quantize_inputs(const float* x, QuantizedInputs& to) {
  const float largest = largest_of(x, kQuantized), steps = 127 / largest;
  constexpr float kMost = std::numeric_limits<float>::max();
  if (!(largest <= kMost)) {
    to = {{}, kNan, 0, kNan};
    return;
  }
  // 0 for blocks of zeros, and for numbers so small that `steps` is infinite.
  const float inverse = steps <= kMost ? steps : 0;
  int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < kQuantized; ++i) {
    const auto q = static_cast<int32_t>(nearest(x[i] * inverse));
    to.q[i] = static_cast<int8_t>(q);
    sum += q;
  }
  to.scale = inverse > 0 ? largest / 127 : 0;
  to.begin = -128 * sum;
  to.scaled_sum = to.scale * static_cast<float>(sum);
}

/// The power of two that brings `scale` to [2^14, 2^15).
float unit_for(float scale) {
  return scale > 0 ? std::ldexp(1.0f, std::max(std::ilogb(scale) - 14, -126)) : 1;
}

/// The smallest f16 not below x, for 0 <= x < 2^15.
uint16_t half_above(float x) {
  const uint16_t half = float_to_half(x);
  return static_cast<uint16_t>(half + (half_to_float(half) < x));
}

void quantize_to_8(const float* w, float unit, QuantizedWeights& to) {
  const float largest = simd([=] { return largest_of(w, kQuantized); });
  to.min = 0;
  to.scale = half_above(largest / 127 / unit);
  const float step = half_to_float(to.scale) * unit;
  uint8_t* code = to.code;
  simd([=] {
#pragma omp simd
    for (int64_t i = 0; i < kQuantized; ++i) {
      const auto q = static_cast<int32_t>(step > 0 ? nearest(w[i] / step) : 0);
      code[i] = static_cast<uint8_t>(q + 128);
    }
  });
}

/// Rounds to q = 0 .. 15 with w = step q + low, where step and low become f16. Returns the sum of
/// the squared errors.
float round_to_4(const float* w, float unit, float step, float low, QuantizedWeights& to) {
  to.scale = float_to_half(step / unit);
  to.min = float_to_half(low / unit);
  const float s = half_to_float(to.scale) * unit, m = half_to_float(to.min) * unit;
  uint8_t* code = to.code;
  return simd([=] {
    float error = 0;
    for (int64_t i = 0; i < kQuantized; ++i) {
      float q = s != 0 ? (w[i] - m) / s : 0;
      q = nearest(q < 0 ? 0 : q > 15 ? 15 : q);
      code[i] = static_cast<uint8_t>(static_cast<int32_t>(q));
      const float off = (w[i] - (s * q + m)) / unit;
      error += off * off;
    }
    return error;
  });
}

void quantize_to_4(const float* w, float unit, QuantizedWeights& to) {
  const auto [low, high] = std::minmax_element(w, w + kQuantized);
  const float error = round_to_4(w, unit, (*high - *low) / 15, *low, to);
  if (error == 0) return;
  // Q4_0 has q - 8 times a scale of either sign. The largest magnitude has q = 0.
  const float largest = -*low > *high ? *low : *high;
  QuantizedWeights other;
  if (round_to_4(w, unit, largest / -8, largest, other) < error) to = other;
}

}  // namespace

void quantize_rows(const float* x, int64_t rows, int64_t k, QuantizedInputs* to) {
  const int64_t whole = k / kQuantized;
  for (int64_t r = 0; r < rows; ++r, x += k, to += quantized_blocks(k)) {
    simd([=] {
      for (int64_t i = 0; i < whole; ++i) quantize_inputs(x + i * kQuantized, to[i]);
    });
    if (k % kQuantized == 0) continue;
    float last[kQuantized] = {};
    std::copy(x + whole * kQuantized, x + k, last);
    quantize_inputs(last, to[whole]);
  }
}

float quantize_weights(QuantizedForm form, const float* w, int64_t k, QuantizedWeights* row) {
  const float largest = simd([=] { return largest_of(w, k); });
  if (!std::isfinite(largest)) {
    std::fill_n(row, quantized_blocks(k), QuantizedWeights{});
    return kNan;
  }
  const bool four = form == QuantizedForm::int4;
  const float unit = unit_for(four ? largest : largest / 127);
  const auto quantize_block = four ? quantize_to_4 : quantize_to_8;
  const int64_t whole = k / kQuantized;
  for (int64_t i = 0; i < whole; ++i) quantize_block(w + i * kQuantized, unit, row[i]);
  if (k % kQuantized > 0) {
    float last[kQuantized];
    std::fill(std::copy(w + whole * kQuantized, w + k, last), last + kQuantized, w[k - 1]);
    quantize_block(last, unit, row[whole]);
  }
  return unit;
}

void pack_quantized(QuantizedForm form, const float* w, int64_t n, int64_t k, int64_t s,
                    uint8_t* strip, float* units) {
  const bool four = form == QuantizedForm::int4;
  const int64_t blocks = quantized_blocks(k), codes = kStrip * (four ? 4 : 2);
  std::vector<QuantizedWeights> row(static_cast<size_t>(blocks));
  for (int64_t j = 0; j < kStrip; ++j) {
    const int64_t output = s * kStrip + j;
    if (output < n) {
      units[j] = quantize_weights(form, w + output * k, k, row.data());
    } else {
      units[j] = 0;
      std::fill(row.begin(), row.end(), QuantizedWeights{});
    }
    uint8_t* to = strip;
    for (QuantizedWeights& block : row) {
      std::memcpy(to + j * 2, &block.scale, 2);
      if (four) std::memcpy(to + kStrip * 2 + j * 2, &block.min, 2);
      for (int64_t i = 0; i < kQuantized; i += 4) {
        uint8_t* quad = to + codes + (four ? i / 2 / 4 * 4 : i) * kStrip + j * 4;
        if (four && i % 8 == 4)
          for (int64_t c = 0; c < 4; ++c)
            quad[c] = static_cast<uint8_t>(quad[c] | block.code[i + c] << 4);
        else
          std::memcpy(quad, block.code + i, 4);
      }
      to += quantized_block_bytes(form);
    }
  }
}

void read_quantized(QuantizedForm form, const uint8_t* packed, const float* units, int64_t output,
                    int64_t k, float* w) {
  const bool four = form == QuantizedForm::int4;
  const int64_t j = output % kStrip, codes = kStrip * (four ? 4 : 2);
  const uint8_t* strip = packed + output / kStrip * quantized_strip_bytes(form, k);
  const auto half_at = [j](const uint8_t* from) {
    uint16_t half;
    std::memcpy(&half, from + j * 2, 2);
    return half_to_float(half);
  };
  for (int64_t at = 0; at < k; at += kQuantized, strip += quantized_block_bytes(form)) {
    const float scale = half_at(strip), min = four ? half_at(strip + kStrip * 2) : 0;
    for (int64_t i = 0; i < std::min(kQuantized, k - at); ++i) {
      const int64_t quad = four ? i / 8 * 4 : i / 4 * 4;
      const int code = strip[codes + quad * kStrip + j * 4 + i % 4];
      const int q = !four ? code - 128 : i % 8 < 4 ? code & 15 : code >> 4;
      w[at + i] = std::fma(scale, static_cast<float>(q), min) * units[output];
    }
  }
}

}  // namespace tern::kernels
