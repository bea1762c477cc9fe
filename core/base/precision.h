// How precisely products of f32 matrices are computed.
#pragma once

#include <string>

namespace tern {

/// The precision of matmul, linear, einsum, convolutions, recurrent layers and attention on f32
/// tensors; f64 and i64 do not know of it.
enum class MatmulPrecision : int {
  f32 = 0,
  /// Operands are rounded to bfloat16 (8 bits of mantissa, f32's range; to nearest, ties to even;
  /// below 1.2e-38 to zero), products are summed in f32. Results have the same bits on every x86-64
  /// processor, with any number of threads and wherever an element lies in its matrix: with
  /// (x) for x rounded, element (i, j) is
  ///   s = 0 (or what stood in C); for every 32 places of k, the last ones filled up with zeros:
  ///   s += even + odd,  where even is the sum of (a_ik)(b_kj) over the even k, odd over the odd
  ///   ones, each from 0 on by fused multiplications in order of k,
  /// with every result below 1.2e-38 being zero; where few elements have long sums, these are cut
  /// into parts by the shape alone, which are then added in order. That is what the matrix unit of
  /// Intel's processors (AMX) computes; elsewhere dot products of pairs (AVX512_BF16) or plain
  /// fused multiplications give the same. Only the payload of a NaN is open. What backward passes
  /// of matmul, linear, einsum and attention need of operands is kept as bfloat16 from when nobody
  /// else holds them. Products take a fifth of f32's time with AMX, half with AVX512_BF16 and up
  /// to 1.6 of it by fused multiplications. As torch.set_float32_matmul_precision("medium").
  bf16 = 1,
};

/// "f32", "bf16".
std::string to_string(MatmulPrecision precision);
/// The other way; an error that lists the names for any other text.
MatmulPrecision matmul_precision(const std::string& name);

/// What this thread computes with: f32 unless a scope says otherwise. Bodies of parallel loops have
/// that of their caller. An op is differentiated with the precision that it was computed with.
MatmulPrecision matmul_precision();

/// Sets the precision of this thread while in scope.
class MatmulPrecisionScope {
 public:
  explicit MatmulPrecisionScope(MatmulPrecision precision);
  ~MatmulPrecisionScope();
  MatmulPrecisionScope(const MatmulPrecisionScope&) = delete;
  MatmulPrecisionScope& operator=(const MatmulPrecisionScope&) = delete;

 private:
  MatmulPrecision before_;
};

}  // namespace tern
