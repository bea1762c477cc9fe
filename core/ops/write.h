// In-place writes on raw storage, for creation and copies. Inside of core only.
#pragma once

#include "tern/core/ops/ops.h"
#include "tern/core/tape/record.h"

namespace tern::detail {

/// A number in the bytes of an element of `type`; fractions are cut off for integers.
std::array<char, 8> element(Scalar value, DType type);

/// Writes `from`, broadcast to the shape of `to` and converted to its type.
void write(const char* op, const Fresh& to, const Tensor& from);

/// Announces a write by `op` to x and gives access to it: refuses while gradients are recorded,
/// and where elements of x share memory.
Fresh writable(const char* op, const Tensor& x);

/// `from` itself, or a copy of it if writing to `to` would change it on the way.
Tensor safe_source(const Tensor& to, const Tensor& from);

}  // namespace tern::detail
