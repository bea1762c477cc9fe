// The layouts in memory that tests give to the operands of an op, and a choice of combinations.
#pragma once

#include <string>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern::test {

/// Row-major numbers for naive loops.
struct Array {
  Shape shape;
  std::vector<double> v;
  Array() = default;
  explicit Array(const Shape& s) : shape(s), v(static_cast<size_t>(tern::numel(s))) {}
  int64_t numel() const { return tern::numel(shape); }
  double& operator[](int64_t i) { return v[static_cast<size_t>(i)]; }
  double operator[](int64_t i) const { return v[static_cast<size_t>(i)]; }
  double& at(const Dims& index);
  double at(const Dims& index) const;
  /// at(), where axes of size 1 and missing leading axes broadcast.
  double broadcast_at(const Dims& index) const;
};

/// One way for a tensor to lie in memory.
struct Placing {
  enum Kind {
    contiguous,
    transposed,  ///< the first axis innermost
    sliced,      ///< an offset and gaps, filled with NaN or the largest integer
    flipped,     ///< every stride negative
    expanded,    ///< stride 0 along `axis`
    repeated,    ///< stride 0 along every axis
  };
  Kind kind = contiguous;
  int axis = -1;

  bool stretches() const { return kind == expanded || kind == repeated; }
  /// The shape that is stored in memory: size 1 along the axes of stride 0.
  Shape stored(Shape shape) const;
};

std::string to_string(Placing placing);

/// All distinct placings of a tensor of this shape. Without `stretched`, none has stride 0.
std::vector<Placing> placings(const Shape& shape, bool stretched);

/// The numbers as a tensor of type T. The caller stretches the axes of stride 0 with expand(), so
/// that their gradients are summed.
template <class T>
Tensor lay_out(const Array& stored, Placing placing);

/// Rows of choices, row[i] < counts[i], such that some row contains every pair of choices of every
/// two factors. With a single factor, every choice.
std::vector<std::vector<int>> covering_array(const std::vector<int>& counts);

}  // namespace tern::test
