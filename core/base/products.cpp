// Whether BLAS or tern computes f32 products: BLAS if the user chose it or the processor lacks FMA.
#include "tern/core/base/products.h"

#include "tern/core/base/bf16_way.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/matmul_backend.h"
#include "tern/core/base/precision.h"

namespace tern {
namespace {

/// Whether vector code has fused multiply-adds.
bool has_fma() {
#if defined(__aarch64__)
  return true;
#else
  return detail::vector_level >= VectorLevel::kAvx2;
#endif
}

}  // namespace

bool products_by_blas() { return matmul_backend() == MatmulBackend::blas || !has_fma(); }

std::string products_in_use() {
  if (matmul_precision() == MatmulPrecision::bf16) return "bf16 by " + bf16_products();
  return products_by_blas() ? "f32 by BLAS" : "f32 by tiles";
}

}  // namespace tern
