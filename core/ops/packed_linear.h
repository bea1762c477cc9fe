// y = f(x W^T + b) + residual for weights that stay as they are while many products are made of
// them: W is copied once into the order that the product reads, in f32, bf16 or as int8. Numbers
// behind pointers instead of tensors, no tape, no gradients: what decoding runs on.
//
//   PackedLinear up(weight, bias, PackedType::int8);
//   PackedRows rows;                          // room that is used again
//   rows.assign(x, 64, up.inputs(), PackedType::int8);
//   up(rows, y, {.activation = Activation::relu});
//
// f32: every output is one sum in order of the inputs. bf16: numbers of W and x are rounded; sums
// are those of MatmulPrecision::bf16 (base/precision.h), never cut: with `none` and `relu` y has
// the bits of linear() but where that cuts long sums. W takes half of the memory where the
// processor has instructions for bf16. int8: numbers of a row of W, and of a row of x, are rounded
// to 255 steps of 1 / 127 of the largest among them; sums are exact and their scaling is the same
// on every processor (core/kernels/gemm_int8.h). Either way a row of y does not depend on the other
// rows of x, to the bit, nor on the number of threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tern/core/base/bf16_way.h"
#include "tern/core/ops/ops.h"

namespace tern {

/// What the numbers of packed weights are.
enum class PackedType { f32, bf16, int8 };

/// Rows of x as products with packed weights read them. A value that keeps its room.
class PackedRows {
 public:
  /// x (rows, k), without gaps. f32, and PackedLinear::some() in bf16: x is read where it lies, for
  /// as long as this is used.
  void assign(const float* x, int64_t rows, int64_t k, PackedType type);
  int64_t rows() const { return rows_; }

 private:
  friend class PackedLinear;
  const float* x_ = nullptr;
  int64_t rows_ = 0, inputs_ = 0;
  PackedType type_ = PackedType::f32;
  Bf16Way way_ = Bf16Way::portable;
  std::vector<std::byte> packed_;  // of bf16
  std::vector<int8_t> rounded_;    // of int8
  std::vector<float> scales_;
  std::vector<int32_t> begin_;
};

struct PackedLinearOptions {
  Activation activation = Activation::none;
  /// (rows, outputs) as y; may be y; added last. With `none` and `relu` only.
  const float* residual = nullptr;
};

/// Whether single outputs will be asked for.
enum class Shortlists { no, yes };

class PackedLinear {
 public:
  PackedLinear() = default;
  /// weight f32 (N, K), bias f32 (N) or undefined. Error: other types and shapes; int8 with more
  /// than 131,072 inputs.
  PackedLinear(const Tensor& weight, const Tensor& bias, PackedType type,
               Shortlists shortlists = Shortlists::no);

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  PackedType type() const { return type_; }
  int64_t bytes() const;  ///< that this keeps

  /// y (rows, outputs). REQUIRES: x was assigned with this type and `inputs` numbers a row.
  void operator()(const PackedRows& x, float* y, const PackedLinearOptions& options = {}) const;

  /// Outputs first .. first + count alone, y (rows, count). `first` is a multiple of 32.
  void columns(const PackedRows& x, int64_t first, int64_t count, float* y) const;

  /// y[i] = output list[i] of row `row`: for few among many. In f32 and bf16 their sums are in
  /// another order than those above. REQUIRES: Shortlists::yes; outputs that are there.
  void some(const PackedRows& x, int64_t row, const int64_t* list, int64_t count, float* y) const;

 private:
  void run(const PackedRows& x, int64_t first, int64_t count, float* y,
           const PackedLinearOptions& options) const;

  int64_t inputs_ = 0, outputs_ = 0;
  PackedType type_ = PackedType::f32;
  Bf16Way way_ = Bf16Way::portable;  // that bf16 is packed for
  Tensor data_;                      // strips of 32 outputs
  Tensor rows_;                      // (N, K) for shortlists: f32, words of bf16 as bytes, or
                                     // rounded numbers + 128
  std::vector<float> bias_;          // padded to whole strips
  std::vector<float> scales_;        // of int8
};

}  // namespace tern
