// The table that every op is tested by. A row says what the op is, the shapes of its floating
// inputs and what a naive loop makes of them; run_rows checks, for every row,
// - the value in f64 and f32 against the naive loop,
// - the first and second gradient in f64 against central differences,
// each with the inputs contiguous, transposed, expanded, sliced (step 2), flipped and empty.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/core/ops.h"

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

/// Calls body(index) for every index of `shape`, in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& body);

/// out[i] = x[from(i)].
Array picked(const Array& x, const Shape& shape, const std::function<Dims(const Dims&)>& from);

Array to_array(const Tensor& t);

enum class Second { works, throws };  ///< what a second derivative does

struct OpRow {
  std::string name;
  std::vector<Shape> shapes;  ///< of the floating inputs
  std::function<Tensor(const std::vector<Tensor>&)> fn;
  std::function<Array(const std::vector<Array>&)> naive;
  double low = -2, high = 2;  ///< inputs are drawn evenly from here, no two nearly equal
  bool gradient = true;       ///< false: the result must not require a gradient
  Second second = Second::works;
  /// Shapes of the empty run. Left out: axis 0 of every input whose size there is that of input 0
  /// becomes 0.
  std::vector<Shape> empty_shapes = {};
  bool skip_empty = false;
  bool skip_expanded = false;  ///< where repeated values make the op ambiguous (max, sort)
  int64_t terms = 64;          ///< numbers summed for one result: sets the f32 tolerance
};

void run_rows(const std::vector<OpRow>& rows);

}  // namespace tern::test
