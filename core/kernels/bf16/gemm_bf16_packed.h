// bf16 products with a matrix that is packed once (gemm_packed.h): y = f(x W^T + b) + residual.
// Sums are those of MatmulPrecision::bf16 (base/precision.h), never cut. They have the same bits in
// every way, and a row's sums do not depend on the other rows. Only the way that packed data can
// read it. Runs in the calling thread. Inside of core only.
#pragma once

#include "tern/core/base/bf16_way.h"
#include "tern/core/kernels/products/gemm_packed.h"
#include "tern/core/kernels/products/matrix.h"

namespace tern::kernels {

/// The functions of a way.
struct Bf16Packing {
  /// Sizes in bytes of packed rows of x and of packed strips of w.
  int64_t (*bytes_of_rows)(int64_t rows, int64_t k);
  int64_t (*bytes_of_strips)(int64_t n, int64_t k);
  /// The first row of a part; part n of n is the end.
  int64_t (*first_row)(int64_t rows, RowPart part);
  /// Packs a part of x (rows, k), contiguous.
  void (*pack_rows)(const float* x, int64_t rows, int64_t k, RowPart part, void* packed);
  /// w (n, k), contiguous. Outputs beyond n are undefined.
  void (*pack_strips)(const float* w, int64_t n, int64_t k, void* packed);
  /// Row `output` of w (k), as it was rounded.
  void (*read_output)(const void* packed, int64_t output, int64_t k, float* w);
  /// Computes sums (rows of the part, outputs of whole strips first .. last). Rows are `stride`
  /// apart.
  void (*multiply)(const StripRange& range, const void* rows, const void* strips, float* sums,
                   int64_t stride);
};

/// REQUIRES: the processor has the way.
const Bf16Packing& bf16_packing(Bf16Way way);

/// As multiply_strips.
void multiply_bf16_strips(const Bf16Packing& packing, const StripRange& range, const void* rows,
                          const void* strips, float* y, int64_t y_stride, const StripEnd& end);

/// y[i] = x (k) times row list[i] of w (n, k) + bias, with x and w rounded. Sums are in another
/// order, which is the same on every processor.
void multiply_bf16_some(const float* x, const Bf16* w, int64_t k, const float* bias,
                        const int64_t* list, int64_t count, float* y);

}  // namespace tern::kernels
