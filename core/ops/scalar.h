// A number among the operands of an op.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tern {

/// A number where a tensor would do; takes the dtype of the other operand, except that an integer
/// tensor with a floating number (2.0 too) gives f32. Numbers that the dtype does not hold:
/// - where they are stored (full, fill_, scalar, tensor, arange, linspace, pad, masked_fill, where)
///   they are an error, and so is a bound of clamp, minimum or maximum that would be the result;
///   fractions are cut off, and u8 takes -255 to -1 as 1 to 255, all as in PyTorch;
/// - comparisons are by value: no u8 is greater than 300. So are floor_divide and remainder;
/// - add, sub and mul wrap around, as integers always do;
/// - in f32 they are infinite, except where they are stored (scalar and tensor aside).
struct Scalar {
  template <class T>
  requires std::is_arithmetic_v<T> Scalar(T v)  // NOLINT: implicit on purpose
      : value(static_cast<double>(v)),
        integer(std::is_integral_v<T> ? static_cast<int64_t>(v) : 0),
        is_integer(std::is_integral_v<T>) {}
  double value;
  int64_t integer;  ///< exact where is_integer, else 0
  bool is_integer;
};

}  // namespace tern
