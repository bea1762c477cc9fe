// Products of f32 matrices whose operands are rounded to bfloat16 while packing:
// MatmulPrecision::bf16 (base/precision.h defines the result to the bit). Inside of core only.
#pragma once

#include "tern/core/kernels/products/matrix.h"
#include "tern/core/kernels/products/tile_set.h"

namespace tern::kernels {

/// Computes a product on this thread, for m, n, k >= 1. REQUIRES: blas_takes() A and B.
void multiply_bf16(const Product<float>& p);

/// Computes a product on all threads, which share packed operands. Calls `done` on each panel when
/// it is complete.
void multiply_bf16_together(const Product<float>& p, const PanelDone& done);

/// Whether AMX multiplies the transposed operands: few rows by a column-major matrix (a linear
/// layer's weights), which is then packed in its own order. Windows of pictures have no matrix B.
inline bool is_turned_by_amx(const Product<float>& p) {
  constexpr int64_t kFewRows = 16;
  return !p.conv && p.m <= kFewRows && p.n > p.m && p.b.strides.col != 1;
}

/// The tiles of the way in use. They round what they pack.
const TileSet& bf16_tiles();

}  // namespace tern::kernels
