// Products in bf16 with a matrix that is packed once (gemm_packed.h): y = f(x W^T + b) + residual.
// Sums are those of MatmulPrecision::bf16 (base/precision.h), never cut, the same by every way, and
// a row's do not depend on the rows beside it. What is packed is for one way, and is read by that
// one alone. Everything runs in the calling thread. Inside of core only.
#pragma once

#include "tern/core/base/bf16_way.h"
#include "tern/core/kernels/gemm_packed.h"
#include "tern/core/kernels/matrix.h"

namespace tern::kernels {

/// What a way does.
struct Bf16Packing {
  /// Bytes of packed rows of x, and of packed strips of w.
  int64_t (*bytes_of_rows)(int64_t rows, int64_t k);
  int64_t (*bytes_of_strips)(int64_t n, int64_t k);
  /// x (rows, k), without gaps.
  void (*pack_rows)(const float* x, int64_t rows, int64_t k, void* packed);
  /// w (n, k), without gaps; outputs behind n are not defined.
  void (*pack_strips)(const float* w, int64_t n, int64_t k, void* packed);
  /// sums (range.rows, outputs of whole strips first .. last), `stride` apart.
  void (*multiply)(const StripRange& range, const void* rows, const void* strips, float* sums,
                   int64_t stride);
};

/// REQUIRES: the processor has the way.
const Bf16Packing& bf16_packing(Bf16Way way);

/// As multiply_strips.
void multiply_bf16_strips(const Bf16Packing& packing, const StripRange& range, const void* rows,
                          const void* strips, float* y, int64_t y_stride, const StripEnd& end);

/// y[i] = x (k) times row list[i] of w (n, k) + bias, x and w rounded: sums in an order of its own,
/// the same on every processor.
void multiply_bf16_some(const float* x, const Bf16* w, int64_t k, const float* bias,
                        const int64_t* list, int64_t count, float* y);

}  // namespace tern::kernels
