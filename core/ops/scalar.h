// Numbers as operands of ops.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tern {

/// A number in place of a tensor. It takes the dtype of the other operand, but an integer tensor
/// with a floating number (2.0 too) gives f32. Unsigned integers of 2^63 or more count as floating
/// numbers. Numbers that the dtype cannot hold:
/// - An op that stores the number (full, fill_, scalar, tensor, arange, linspace, pad, masked_fill,
///   where) throws; so do clamp, minimum and maximum if the number would be a result. Fractions are
///   truncated, and u8 turns -255 ... -1 into 1 ... 255, as in PyTorch.
/// - Comparisons, floor_divide and remainder use the number's value: no u8 is greater than 300.
/// - add, sub and mul wrap around, as integers always do.
/// - f32 turns numbers beyond its range into infinity. Of the ops that store a number, only scalar
///   and tensor do so too; the others throw.
struct Scalar {
  template <class T>
  requires std::is_arithmetic_v<T> Scalar(T v)  // NOLINT: implicit on purpose
      : value(static_cast<double>(v)), integer(0), is_integer(false) {
    if constexpr (std::is_integral_v<T>) {
      if (!std::is_unsigned_v<T> || static_cast<uint64_t>(v) <= uint64_t{INT64_MAX}) {
        integer = static_cast<int64_t>(v);
        is_integer = true;
      }
    }
  }
  double value;
  int64_t integer;  ///< exact where is_integer, else 0
  bool is_integer;
};

}  // namespace tern
