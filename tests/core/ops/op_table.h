// The table by which every op is tested. A row gives the op, the shapes of its floating inputs and
// a naive loop for the result. run_rows checks for every row:
// - with all inputs placed alike (contiguous, transposed, sliced, flipped, expanded along each
//   axis, empty): the value in f64 and f32 against the naive loop, the first and second gradient
//   in f64 against central differences;
// - with every pair of placings of every two operands, where the gradient from above is an operand
//   too: the values against the naive loop, and the gradients against those of contiguous copies
//   (first and second in f64, to rounding, and first in f32). That is far stricter than central
//   differences and far cheaper, so all pairs can be tried. The vector level changes from trial to
//   trial; in every third, AVX2 and AVX-512 must give the same bits in f32;
// - with all inputs in foreign read-only memory beside forbidden pages: the bits in f32;
// - with each input undefined: an Error says so, or the op does without it (a bias).
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/tests/core/ops/op_layouts.h"

namespace tern::test {

using Args = std::vector<Tensor>;
using Arrays = std::vector<Array>;
using Ints = std::vector<int64_t>;
using Doubles = std::vector<double>;

inline Ints list(const Tensor& t) { return t.to_vector<int64_t>(); }
inline Doubles numbers(const Tensor& t) { return t.to_vector<double>(); }
inline Tensor i64(std::initializer_list<int64_t> v) { return tensor(Ints(v), Shape(v.size())); }
inline Tensor u8(std::initializer_list<uint8_t> v) {
  return tensor(std::vector<uint8_t>(v), Shape(v.size()));
}
inline Tensor ints(const Ints& values, const Shape& shape) { return tensor(values, shape); }

/// Calls body(index) for every index of `shape`, in row-major order.
void for_each_index(const Shape& shape, const std::function<void(const Dims&)>& body);

/// out[i] = x[from(i)].
Array picked(const Array& x, const Shape& shape, const std::function<Dims(const Dims&)>& from);

Array to_array(const Tensor& t);

struct OpRow {
  std::string name;
  std::vector<Shape> shapes;  ///< shapes of the floating inputs
  std::function<Tensor(const Args&)> fn;
  std::function<Array(const Arrays&)> naive;
  double low = -2, high = 2;  ///< the range of the inputs; no two are nearly equal
  bool gradient = true;       ///< false: the result must not require a gradient
  /// Shapes of the run with empty inputs. By default axis 0 becomes 0 in every input in which its
  /// size equals that of input 0.
  std::vector<Shape> empty_shapes = {};
  bool skip_empty = false;
  bool skip_expanded = false;  ///< for ops that jump at repeated values (max, sort)
  int64_t terms = 64;          ///< terms per sum: sets the f32 tolerance
  bool checked = false;        ///< equals() was called

  OpRow& between(double least, double most) { return low = least, high = most, *this; }
  OpRow& no_gradient() { return gradient = false, *this; }
  OpRow& empty(const std::vector<Shape>& inputs) { return empty_shapes = inputs, *this; }
  OpRow& no_empty() { return skip_empty = true, *this; }
  OpRow& no_expanded() { return skip_expanded = true, *this; }
  OpRow& sums_of(int64_t n) { return terms = n, *this; }
  /// Checks the row, with this naive loop.
  void equals(const std::function<Array(const Arrays&)>& loop);
};

/// A row that must be checked: a test fails in which equals() was forgotten.
struct CheckedRow : OpRow {
  ~CheckedRow();
};

/// A row to be checked: op("abs", {{2, 3}}, [](auto& x) { return abs(x[0]); }).equals(loop).
inline CheckedRow op(const std::string& name, const std::vector<Shape>& shapes,
                     const std::function<Tensor(const Args&)>& fn) {
  return {{.name = name, .shapes = shapes, .fn = fn, .naive = {}}};
}

void run_rows(const std::vector<OpRow>& rows);

}  // namespace tern::test
