// Products of rounded numbers, for decoding: y = f(s_x s_w (q_x q_w^T) + b) + residual.
//
//   s_w[j] = max |w[j]| / 127,  q_w = w / s_w rounded to the nearest even, in [-127, 127]
//   s_x[r], q_x                 the same for each row of x, computed for every product
//
// Each row of W (an output channel) and each row of x has its own scale. Integer sums are exact.
// The scaling float(sum) * s_x * s_w + b rounds after each operation (no fused multiply-add). So
// all ways give the same bits. W is in strips of 32 outputs as in gemm_packed.h. Four inputs of an
// output lie together, as q_w + 128, since the instructions multiply signed by unsigned numbers;
// each sum starts at -128 sum(q_x) to compensate. Runs in the calling thread. Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/kernels/products/gemm_packed.h"

namespace tern::kernels {

/// The ways to compute int8 products, from slowest to fastest.
enum class Int8Way : int {
  kPlain = 0,       ///< loops
  kAvx2 = 1,        ///< 16-bit products, added in pairs
  kAvxVnni = 2,     ///< vpdpbusd of 32 bytes
  kAvx512Vnni = 3,  ///< vpdpbusd of 64 bytes
};
/// Whether this processor has the way, within the vector level that simd() uses.
bool int8_way_available(Int8Way way);
/// The fastest available way.
Int8Way best_int8_way();

/// The largest number of inputs whose sums always fit into 32 bits.
constexpr int64_t kMaxInt8Inputs = int64_t{1} << 17;
/// The stored number of inputs: k rounded up to a multiple of 4.
inline int64_t int8_inputs(int64_t k) { return ceil_div(k, 4) * 4; }

/// packed: strips_of(n) * 32 * int8_inputs(k) bytes of w (n, k). scales: strips_of(n) * 32 numbers;
/// 0 beyond n and for rows of zeros.
void pack_int8(const float* w, int64_t n, int64_t k, uint8_t* packed, float* scales);

/// Rows of x for products: q (rows, int8_inputs(k)), scales (rows), and the starts of the sums,
/// -128 sum(q). The scale of a row with NaN or infinity is NaN or infinite.
struct Int8Rows {
  int8_t* q;
  float* scales;
  int32_t* begin;
};
void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t x_stride, const Int8Rows& to);

/// As multiply_strips. w_scales are from pack_int8. REQUIRES: int8_way_available(way).
void multiply_int8(Int8Way way, const StripRange& range, const Int8Rows& x, const uint8_t* packed,
                   const float* w_scales, float* y, int64_t y_stride, const StripEnd& end);

/// rows (n, int8_inputs(k)): the numbers that pack_int8 packed, as q_w + 128.
void unpack_int8(const uint8_t* packed, int64_t n, int64_t k, uint8_t* rows);

/// One row of x.
struct Int8Row {
  const int8_t* q;
  float scale;
};
/// y[i] = output list[i], with the same bits as multiply_int8.
void multiply_int8_some(const Int8Row& x, const uint8_t* rows, int64_t k, const float* w_scales,
                        const float* bias, const int64_t* list, int64_t count, float* y);

}  // namespace tern::kernels
