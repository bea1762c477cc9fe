// The precision of f32 matrix products.
#pragma once

#include <string>

#include "tern/core/base/restored.h"

namespace tern {

/// The precision of matmul, linear, einsum, convolutions, recurrent layers and attention on f32
/// tensors. It does not affect f64 and i64.
enum class MatmulPrecision : int {
  f32 = 0,
  /// Operands are rounded to bfloat16 (8 bits of mantissa, f32's range; to nearest, ties to even;
  /// below 1.2e-38 to zero) and products are summed in f32. Results have the same bits on every
  /// processor, for any number of threads and any place of an element in its matrix. With
  /// (x) for x rounded, element (i, j) is
  ///   s = 0 (or the element of C). For every 32 values of k, the last ones padded with zeros:
  ///   s += even + odd, where even is the sum of (a_ik)(b_kj) over the even k and odd over the odd
  ///   ones, each from 0 by fused multiply-adds in order of k.
  /// Every result below 1.2e-38 becomes zero. If few elements have long sums, the sums are cut into
  /// parts that depend only on the shape, and the parts are added in order. This order follows the
  /// matrix unit of Intel processors (AMX). On other processors, dot products of pairs
  /// (AVX512_BF16) or fused multiply-adds give the same bits. Only the payload of a NaN may differ.
  /// Operands that the backward passes of matmul, linear, einsum and attention need are kept as
  /// bfloat16 once no other owner holds them. Convolutions by Winograd's filtering round more
  /// (core/base/conv_method.h). Time relative to f32: a fifth with AMX, half with AVX512_BF16 of
  /// AMD, 1 to 1.7 with multiply-adds (also on Intel's without AMX). As
  /// torch.set_float32_matmul_precision("medium").
  bf16 = 1,
};

/// "f32", "bf16".
std::string to_string(MatmulPrecision precision);
/// The inverse of to_string. Error for any other text; it lists the names.
MatmulPrecision matmul_precision(const std::string& name);

/// The precision of this thread: f32 unless a scope sets another. Bodies of parallel loops have
/// their caller's precision. An op's gradient is computed with the precision of the op.
MatmulPrecision matmul_precision();

/// Sets the precision of this thread while in scope.
class MatmulPrecisionScope {
 public:
  [[nodiscard]] explicit MatmulPrecisionScope(MatmulPrecision precision);
  ~MatmulPrecisionScope();

 private:
  detail::Restored<MatmulPrecision> precision_;
};

}  // namespace tern
