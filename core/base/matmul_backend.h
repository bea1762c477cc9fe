// The choice of the code that computes f32 matrix products: tern's own, or BLAS.
#pragma once

#include <string>

#include "tern/core/base/restored.h"

namespace tern {

/// The code that computes matmul, linear, einsum, convolutions, recurrent layers and attention on
/// f32 tensors. Products in bf16 (precision.h) and of i64 always use tern's own code, products of
/// f64 tensors always BLAS.
enum class MatmulBackend : int {
  /// Tern's own code. Every element is summed in order of k, with one fused multiply-add per k, in
  /// blocks that depend only on the shape. So results have the same bits on every x86-64-v3
  /// processor (AVX2 or AVX-512) and on aarch64, for any number of threads. Two cases sum in
  /// another order, also a fixed one. A product of a vector and a matrix that is contiguous along
  /// k, as in linear() of one row, adds up 16 sums; sum i covers the k with k % 16 = i.
  /// Convolutions with 3 x 3 kernels have a method of their own (conv_method.h). An x86-64
  /// processor without FMA uses BLAS instead.
  tiles = 0,
  /// The BLAS library that tern is linked to. Bits depend on the library and on the kernels that it
  /// chooses for the processor, but not on the number of threads.
  blas = 1,
};

/// "tiles", "blas".
std::string to_string(MatmulBackend backend);
/// The inverse of to_string. Error for any other text; it lists the names.
MatmulBackend matmul_backend(const std::string& name);

/// The backend of this thread: tiles unless a scope sets another. Bodies of parallel loops have
/// their caller's backend. An op's gradient is computed with the backend of the op.
MatmulBackend matmul_backend();

/// Sets the backend of this thread while in scope.
class MatmulBackendScope {
 public:
  [[nodiscard]] explicit MatmulBackendScope(MatmulBackend backend);
  ~MatmulBackendScope();

 private:
  detail::Restored<MatmulBackend> backend_;
};

}  // namespace tern
