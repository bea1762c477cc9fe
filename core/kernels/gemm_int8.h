// Products of rounded numbers for decoding: y = f(s_x s_w (q_x q_w^T) + b) + residual.
//
//   s_w[j] = max |w[j]| / 127,  q_w = w / s_w rounded to the nearest even, in [-127, 127]
//   s_x[r], q_x                 the same of each row of x, made anew for every product
//
// A scale for each row of W (an output channel) and of x. The sums are sums of integers and exact,
// the scaling is float(sum) * s_x * s_w + b with each step rounded (no fused multiplication): every
// way gives the same bits. W lies in strips of 32 outputs as in gemm_packed.h, four inputs of an
// output together, as q_w + 128, since the instructions multiply signed numbers by unsigned ones;
// 128 sum(q_x) is taken off each sum before it begins. Everything runs in the calling thread.
// Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/kernels/gemm_packed.h"

namespace tern::kernels {

/// From the slowest to the fastest.
enum class Int8Way : int {
  kPlain = 0,       ///< loops
  kAvx2 = 1,        ///< 16-bit products, added in pairs
  kAvxVnni = 2,     ///< vpdpbusd of 32 bytes
  kAvx512Vnni = 3,  ///< vpdpbusd of 64 bytes
};
/// What this processor can run, within what simd() runs at.
bool int8_way_available(Int8Way way);
/// The fastest of these; looked up once a level.
Int8Way best_int8_way();

/// The most inputs whose sums fit into 32 bits whatever they are.
constexpr int64_t kMaxInt8Inputs = int64_t{1} << 17;
/// Inputs as they are stored: a multiple of 4.
inline int64_t int8_inputs(int64_t k) { return (k + 3) / 4 * 4; }

/// packed: strips_of(n) * 32 * int8_inputs(k) bytes of w (n, k); scales: strips_of(n) * 32, 0
/// behind n and for rows of zeros.
void pack_int8(const float* w, int64_t n, int64_t k, uint8_t* packed, float* scales);

/// Rows of x as products read them: q (rows, int8_inputs(k)), scales (rows), and the numbers
/// -128 sum(q) that sums begin with. A row with a NaN or an infinity has such a scale.
struct Int8Rows {
  int8_t* q;
  float* scales;
  int32_t* begin;
};
void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t x_stride, const Int8Rows& to);

/// As multiply_strips. w_scales as pack_int8 gives them.
/// REQUIRES: int8_way_available(way).
void multiply_int8(Int8Way way, const StripRange& range, const Int8Rows& x, const uint8_t* packed,
                   const float* w_scales, float* y, int64_t y_stride, const StripEnd& end);

/// rows (n, int8_inputs(k)) of what pack_int8 made, numbers + 128 as there.
void unpack_int8(const uint8_t* packed, int64_t n, int64_t k, uint8_t* rows);

/// One row of x.
struct Int8Row {
  const int8_t* q;
  float scale;
};
/// y[i] = output list[i]: the bits of multiply_int8.
void multiply_int8_some(const Int8Row& x, const uint8_t* rows, int64_t k, const float* w_scales,
                        const float* bias, const int64_t* list, int64_t count, float* y);

}  // namespace tern::kernels
