// y = f(x W^T + b) + residual for weights that do not change over many products, as in decoding. W
// is copied once into the order in which products read it, as f32, bf16, int8 or int4. Works on
// plain memory instead of tensors: no tape, no gradients.
//
//   PackedLinear up(weight, bias, PackedType::int8);
//   PackedRows rows;                          // memory to reuse
//   rows.assign(x, 64, up.inputs(), PackedType::int8);
//   up(rows, y, {.activation = Activation::relu});
//
// f32: every output is one sum in the order of the inputs, with one fused multiply-add per input.
// bf16: W and x are rounded and summed as in MatmulPrecision::bf16 (base/precision.h), without
// cutting long sums. So with `none` and `relu` y has the bits of linear() where linear() does not
// cut a sum. In f32 this needs at least two rows and two outputs: linear() with one row or one
// output sums in another order (MatmulBackend::tiles) and rounds differently. On processors with
// bf16 instructions W takes half the memory. int8: each 32 inputs of a row of W or x are rounded to
// multiples of 1/127 of their largest magnitude (255 steps), and W takes 8.5 bits per weight. int4:
// x is as in int8; each 32 weights are rounded to 16 levels from their smallest to their largest,
// as in GGUF's Q4_1, and W takes 5 bits per weight. Sums over 32 inputs are exact, and scaling is
// the same on every processor (core/kernels/products/gemm_quantized.h). A row of x with NaN or an
// infinity gives NaN. In every type, a row of y depends neither on other rows of x nor on the
// number of threads, to the bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "tern/core/base/bf16_way.h"
#include "tern/core/ops/ops.h"

namespace tern {

/// The number type of packed weights.
enum class PackedType { f32, bf16, int8, int4 };

/// Rows of x in the form that packed products read. Reassigning reuses the memory.
class PackedRows {
 public:
  /// x (rows, k), contiguous. f32, and PackedLinear::some() in bf16, read x in place, so x must
  /// outlive all uses of this object.
  void assign(const float* x, int64_t rows, int64_t k, PackedType type);
  int64_t rows() const { return rows_; }

 private:
  friend class PackedLinear;
  const float* x_ = nullptr;
  int64_t rows_ = 0, inputs_ = 0;
  PackedType type_ = PackedType::f32;
  Bf16Way way_ = Bf16Way::portable;
  std::vector<std::byte> packed_;  // except for f32
};

struct PackedLinearOptions {
  Activation activation = Activation::none;
  /// Shape (rows, outputs) as y; may be y itself; added last. Only with `none` and `relu`.
  const float* residual = nullptr;
};

/// Rows [begin, end) of a matrix: f32 (end - begin, K).
using RowReader = std::function<Tensor(int64_t begin, int64_t end)>;
/// Reads a matrix (N, K) in order, in blocks of a few megabytes. Calls use(first, rows) with each
/// block, contiguous; `first` is a multiple of 32. Error: a block of another type or shape.
void read_in_blocks(int64_t n, int64_t k, const RowReader& read,
                    const std::function<void(int64_t first, const Tensor& rows)>& use);

/// Whether some() will be called. It needs the weights a second time, row by row.
enum class Shortlists { no, yes };

class PackedLinear {
 public:
  PackedLinear() = default;
  /// weight f32 (N, K), bias f32 (N) or undefined. Error: other types or shapes.
  PackedLinear(const Tensor& weight, const Tensor& bias, PackedType type,
               Shortlists shortlists = Shortlists::no);
  /// The same, with weights that are read in blocks of rows, so that they need not be in memory
  /// together.
  PackedLinear(int64_t outputs, int64_t inputs, const RowReader& weights, const Tensor& bias,
               PackedType type);

  int64_t inputs() const { return inputs_; }
  int64_t outputs() const { return outputs_; }
  PackedType type() const { return type_; }
  int64_t bytes() const;  ///< memory held

  /// y (rows, outputs). REQUIRES: x was assigned with this type, or int8 for int4, with `inputs`
  /// numbers per row.
  void operator()(const PackedRows& x, float* y, const PackedLinearOptions& options = {}) const;

  /// The weights of one output as they are packed, so rounded, to `weights` (inputs).
  void copy_weights(int64_t output, float* weights) const;

  /// Only the outputs first .. first + count; y (rows, count). `first` is a multiple of 32.
  void columns(const PackedRows& x, int64_t first, int64_t count, float* y) const;

  /// y[i] = output list[i] of row `row`: faster than all outputs if the list is short. In f32 and
  /// bf16 it sums in another order than the functions above. REQUIRES: Shortlists::yes; valid
  /// outputs.
  void some(const PackedRows& x, int64_t row, const int64_t* list, int64_t count, float* y) const;

 private:
  void run(const PackedRows& x, int64_t first, int64_t count, float* y,
           const PackedLinearOptions& options) const;

  int64_t inputs_ = 0, outputs_ = 0;
  PackedType type_ = PackedType::f32;
  Bf16Way way_ = Bf16Way::portable;  // the bf16 kernels that it is packed for
  Tensor data_;                      // strips of 32 outputs, as bytes
  Tensor rows_;                      // (N, K) for shortlists: f32, or bf16 words or rounded
                                     // blocks as bytes
  std::vector<float> bias_;          // padded to whole strips of 32
  std::vector<float> units_;         // for int8 and int4
};

}  // namespace tern
