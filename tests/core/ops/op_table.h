// The table that every op is tested by. A row says what the op is, the shapes of its floating
// inputs and what a naive loop makes of them. run_rows checks for every row:
// - with all inputs placed alike (contiguous, transposed, sliced, flipped, expanded along each
//   axis, empty): the value in f64 and f32 against the naive loop, the first and second gradient
//   in f64 against central differences;
// - with every pair of placings of every two operands, the gradient that comes from above being an
//   operand too: the values against the naive loop, and the gradients against those of contiguous
//   copies: first and second in f64, to rounding, and first in f32. That is far stricter than
//   central differences and far cheaper, so that all pairs can be had. The vector level changes
//   from trial to trial; in every third, AVX2 and AVX-512 must give the same bits in f32.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/tests/core/ops/op_layouts.h"

namespace tern::test {

/// Calls body(index) for every index of `shape`, in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& body);

/// out[i] = x[from(i)].
Array picked(const Array& x, const Shape& shape, const std::function<Dims(const Dims&)>& from);

Array to_array(const Tensor& t);

struct OpRow {
  std::string name;
  std::vector<Shape> shapes;  ///< of the floating inputs
  std::function<Tensor(const std::vector<Tensor>&)> fn;
  std::function<Array(const std::vector<Array>&)> naive;
  double low = -2, high = 2;  ///< inputs are drawn evenly from here, no two nearly equal
  bool gradient = true;       ///< false: the result must not require a gradient
  /// Shapes of the empty run. Left out: axis 0 of every input whose size there is that of input 0
  /// becomes 0.
  std::vector<Shape> empty_shapes = {};
  bool skip_empty = false;
  bool skip_expanded = false;  ///< no differences where repeated values make jumps (max, sort)
  int64_t terms = 64;          ///< numbers summed for one result: sets the f32 tolerance
};

void run_rows(const std::vector<OpRow>& rows);

}  // namespace tern::test
