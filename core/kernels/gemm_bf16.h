// Products of f32 matrices whose operands are rounded to bfloat16 while they are packed:
// MatmulPrecision::bf16 (base/precision.h says what is computed, to the bit). Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/kernels/matrix.h"

namespace tern::kernels {

/// C = A B + beta C in this thread, for m, n, k >= 1; C has column stride 1 and row stride ldc.
/// REQUIRES: blas_takes() A and B.
void multiply_bf16(int64_t m, int64_t n, int64_t k, Factor a, MatrixStrides sa, Factor b,
                   MatrixStrides sb, float beta, float* c, int64_t ldc);

/// The same in all threads, which share the packed B, with panels handed to `done` as they are
/// complete.
void multiply_bf16_together(int64_t m, int64_t n, int64_t k, Factor a, MatrixStrides sa, Factor b,
                            MatrixStrides sb, float beta, float* c, int64_t ldc,
                            const PanelDone& done);

}  // namespace tern::kernels
