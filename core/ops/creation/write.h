// Writes to storage, for creation, copies and in-place ops. Inside of core only.
#pragma once

#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern::detail {

/// A number as text for messages.
inline std::string to_string(Scalar s) {
  return s.is_integer ? fmt::format("{}", s.integer) : fmt::format("{}", s.value);
}

/// The bytes of the number as an element of `type`. Integers truncate fractions. A number that the
/// type cannot hold is an error of `op` (rule: scalar.h).
std::array<char, 8> element(const char* op, Scalar value, DType type);

/// The same without the check: integers wrap around, numbers beyond f32 become infinite.
std::array<char, 8> wrapped_element(Scalar value, DType type);

/// Whether element() accepts the number.
bool holds(DType type, Scalar value);

/// Writes `from`, broadcast to the shape of `to` and converted to its type.
void write(const char* op, const Fresh& to, const Tensor& from);

/// Registers a write by `op` to x and returns x as writable memory. Refuses an x whose elements
/// overlap, and a write that would falsify recorded gradients.
Fresh writable(const char* op, const Tensor& x);

/// Refuses an operand of an in-place op that requires a gradient in grad mode: its gradient would
/// be lost.
void check_operand(const char* op, const Tensor& x, const Tensor& operand);

/// Returns `from`, or a copy of it if writing to `to` would overwrite elements of `from`.
Tensor safe_source(const Tensor& to, const Tensor& from);

}  // namespace tern::detail
