// Tells which code computes the matrix products of f32 tensors on this thread.
#pragma once

#include <string>

namespace tern {

/// Whether BLAS computes f32 products: by choice (matmul_backend.h), or because the processor has
/// no fused multiply-adds.
bool products_by_blas();

/// The precision and the code in use: "f32 by tiles", "f32 by BLAS", "bf16 by AVX512_BF16".
std::string products_in_use();

}  // namespace tern
