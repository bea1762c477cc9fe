// Products of rounded numbers, for decoding: y = f(x W^T + b) + residual. Each block of 32 inputs
// of a row of x, and of a row of W (an output), has a scale of its own, so that a number far larger
// than the others costs precision in its block only.
//
//   x = s q,      s f32: max |x| / 127,            q = x (127 / max |x|), in [-127, 127]
//   w = s q unit, s f16: max |w| / (127 unit), rounded up,  q = w / (s unit), in [-127, 127]
//
// In int4 a block of W has a scale and a minimum, as GGUF's Q4_1; x is as above:
//
//   w = (s q + m) unit, s and m f16, q in [0, 15]
//
// Here q is rounded to the nearest integer, ties to even. The unit is a power of two for each row
// of W. It brings the row's largest scale (int4: weight) to [2^14, 2^15), so that f16 suffices for
// weights of any size. Weights of GGUF's Q8_0 stay exact in int8, and those of Q4_0 and Q4_1 in
// int4, if each block has the largest q, as the usual quantisation makes it (Q4_1: the smallest,
// too).
//
//   sum = 0, then for each block in order: sum = fma(float(sum of q_x q_w), s_x s_w, sum)
//              int4: and then sum = fma(m, s_x float(sum of q_x), sum)
//   y   = f(sum unit + b) + residual
//
// The sums of q_x q_w are exact, so all ways give the same bits. The last block is filled with
// zeros in x, with the last weight in W. A row of x or W with NaN or an infinity gives NaN. Blocks
// of x below 4e-37 count as 0.
// Runs in the calling thread. Inside of core only.
#pragma once

#include <array>
#include <cstdint>

#include "tern/core/kernels/products/gemm_packed.h"

namespace tern::kernels {

enum class QuantizedForm : int { int8, int4 };

/// The ways to compute products of rounded numbers, from slowest to fastest.
enum class QuantizedWay : int {
  kPlain,       ///< loops
  kNeon,        ///< 16-bit products of 16 bytes, added in pairs
  kNeonDot,     ///< sdot of 16 bytes
  kAvx2,        ///< 16-bit products of 32 bytes, added in pairs
  kAvxVnni,     ///< vpdpbusd of 32 bytes
  kAvx512Vnni,  ///< vpdpbusd of 64 bytes
};
inline constexpr std::array kQuantizedWays = {QuantizedWay::kPlain,   QuantizedWay::kNeon,
                                              QuantizedWay::kNeonDot, QuantizedWay::kAvx2,
                                              QuantizedWay::kAvxVnni, QuantizedWay::kAvx512Vnni};
/// Whether this processor has the way, within the vector level that simd() uses.
bool quantized_way_available(QuantizedWay way);
/// The fastest available way.
QuantizedWay best_quantized_way();

constexpr int64_t kQuantized = 32;  ///< inputs per block
inline int64_t quantized_blocks(int64_t inputs) { return ceil_div(inputs, kQuantized); }

/// A block of a row of x.
struct QuantizedInputs {
  int8_t q[kQuantized];
  float scale;
  int32_t begin;     ///< -128 times the sum of q: where sums with q_w + 128 start
  float scaled_sum;  ///< the sum of q times the scale
};
/// to: (rows, quantized_blocks(k)).
void quantize_rows(const float* x, int64_t rows, int64_t k, QuantizedInputs* to);

/// A block of a row of W.
struct QuantizedWeights {
  uint16_t scale, min;       ///< f16; min is 0 in int8
  uint8_t code[kQuantized];  ///< int8: q + 128; int4: q
};
/// row: quantized_blocks(k) blocks of w (k). Returns the unit.
float quantize_weights(QuantizedForm form, const float* w, int64_t k, QuantizedWeights* row);

/// The bytes of one block of a strip. int8: 32 scales as f16, then the codes (8 groups of 4 inputs,
/// 32 outputs, 4). int4: 32 scales, 32 minima, then the codes (4, 32 outputs, 4); low halves of
/// bytes are the codes of groups 0, 2, 4 and 6, high halves those of the next group.
constexpr int64_t quantized_block_bytes(QuantizedForm form) {
  return kStrip * (form == QuantizedForm::int8 ? 2 + kQuantized : 4 + kQuantized / 2);
}
inline int64_t quantized_strip_bytes(QuantizedForm form, int64_t k) {
  return quantized_blocks(k) * quantized_block_bytes(form);
}
/// Packs strip s of w (n, k) into quantized_strip_bytes(form, k). units: 32 numbers, 0 beyond n.
void pack_quantized(QuantizedForm form, const float* w, int64_t n, int64_t k, int64_t s,
                    uint8_t* strip, float* units);

/// Row `output` of w (k), as it was rounded.
void read_quantized(QuantizedForm form, const uint8_t* packed, const float* units, int64_t output,
                    int64_t k, float* w);

/// As multiply_strips, with all strips of W. x: (rows, quantized_blocks(k)). REQUIRES:
/// quantized_way_available(way).
void multiply_quantized(QuantizedForm form, QuantizedWay way, const StripRange& range,
                        const QuantizedInputs* x, const uint8_t* packed, const float* units,
                        float* y, int64_t y_stride, const StripEnd& end);

/// y[i] = output list[i] of one row x, with the same bits as multiply_quantized. w: (outputs,
/// quantized_blocks(k)) from quantize_weights.
void multiply_quantized_some(QuantizedForm form, const QuantizedInputs* x,
                             const QuantizedWeights* w, int64_t k, const float* units,
                             const float* bias, const int64_t* list, int64_t count, float* y);

}  // namespace tern::kernels
