// Numbers in nested braces, for tensor({{1, 2}, {3, 4}}).
#pragma once

#include <initializer_list>
#include <span>
#include <type_traits>
#include <vector>

#include "tern/core/base/dtype.h"
#include "tern/core/base/shape.h"
#include "tern/core/ops/scalar.h"

namespace tern {

class Tensor;

/// A number, or a list of NestedNumbers. Error if the parts of a list have different shapes.
class NestedNumbers {
 public:
  template <class T>
  requires std::is_arithmetic_v<T> NestedNumbers(T number)  // NOLINT: implicit on purpose
      : numbers_{Scalar(number)},
        dtype_(std::is_floating_point_v<T> ? DType::f32
               : std::is_same_v<T, bool>   ? DType::u8
                                           : DType::i64) {}
  NestedNumbers(std::initializer_list<NestedNumbers> list);  // NOLINT: implicit on purpose
  /// Other types do not compile.
  template <class T>
  requires(!std::is_arithmetic_v<T> && !std::is_same_v<T, NestedNumbers>)
      NestedNumbers(const T&) {  // NOLINT: as above
    static_assert(std::is_arithmetic_v<T>,
                  "tensor({...}) takes numbers, and lists of numbers in braces; join tensors with "
                  "stack({...}); pass a std::vector without braces: tensor(values)");
  }

  const std::vector<Scalar>& numbers() const { return numbers_; }  ///< in row-major order
  const Shape& shape() const { return shape_; }
  /// f32 if one of the numbers is floating, u8 if all are bool, else i64; f32 if there are none.
  DType dtype() const { return dtype_; }

 private:
  std::vector<Scalar> numbers_;
  Shape shape_;
  DType dtype_;
};

namespace detail {

/// Too large numbers become infinite in floating types; in others they are an Error.
Tensor tensor_of(std::span<const Scalar> numbers, const Shape& shape, DType dtype);
Tensor tensor_of(const NestedNumbers& values, DType dtype);
/// Error if an element of a vector is 2^63 or more.
void check_index_fits(uint64_t value);

}  // namespace detail
}  // namespace tern
