// What computes f32 matrix products.
#pragma once

#include <string>

namespace tern {

/// What computes matmul, linear, einsum, convolutions, recurrent layers and attention on f32
/// tensors. Products in bf16 (precision.h) and of i64 are always tern's own, those in f64 BLAS's.
enum class MatmulBackend : int {
  /// Tern's own code. Every element is summed in order of k, each place by one fused multiply-add,
  /// in blocks that depend on the shape alone. Two exceptions. A product of a vector and a matrix
  /// that is contiguous along k, as in linear() of one row, adds up 16 sums; sum i covers the
  /// places k with k % 16 = i. Convolutions with 3 x 3 kernels have a form of their own
  /// (conv_method.h). So results have the same bits on every x86-64-v3 processor (AVX2 or AVX-512)
  /// and on aarch64, for any number of threads. An x86-64 processor without FMA uses BLAS instead.
  tiles = 0,
  /// The BLAS library that tern is linked to. Bits depend on the library, on the kernels that it
  /// chooses for the processor, and not on the number of threads.
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
  explicit MatmulBackendScope(MatmulBackend backend);
  ~MatmulBackendScope();
  MatmulBackendScope(const MatmulBackendScope&) = delete;
  MatmulBackendScope& operator=(const MatmulBackendScope&) = delete;

 private:
  MatmulBackend before_;
};

}  // namespace tern
