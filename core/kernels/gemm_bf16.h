// Products of f32 matrices whose operands are rounded to bfloat16 while they are packed:
// MatmulPrecision::bf16 (base/precision.h says what is computed, to the bit). Inside of core only.
#pragma once

#include "tern/core/kernels/matrix.h"

namespace tern::kernels {

/// In this thread, for m, n, k >= 1.
/// REQUIRES: blas_takes() A and B.
void multiply_bf16(const Product<float>& p);

/// The same in all threads, which share the packed B, with panels handed to `done` as they are
/// complete.
void multiply_bf16_together(const Product<float>& p, const PanelDone& done);

}  // namespace tern::kernels
