// Shared by the ops that index: checks, and spreading an index over axes. Inside of core only.
#pragma once

#include "tern/core/kernels/indexing/indexing.h"
#include "tern/core/ops/ops.h"

namespace tern::detail {

/// Error unless the index is i64. For a mask the error names index(x, {mask}).
void check_index_type(const char* op, const Tensor& index);
/// Returns the index after checking that it is i64 and lies in [0, size). Errors show `shown`, the
/// index as the user gave it.
Tensor checked_index(const char* op, const Tensor& index, int64_t size, const Tensor& shown = {});

/// Checks that x is at least as long as the index along all axes but the indexed one.
void check_covers(const char* op, const Tensor& x, const Tensor& index, int axis);

/// Views index (K,) in `shape`, whose axis has size K, with stride 0 along the other axes.
Tensor spread(const Tensor& index, int axis, const Shape& shape);

/// Turns a zero-dimensional tensor into one of shape (1,).
inline Tensor with_axes(const Tensor& x) { return x.ndim() == 0 ? reshape(x, {1}) : x; }

/// The part of `source` that index covers.
Tensor covered(const Tensor& source, const Tensor& index);

/// Writes source to to[..., index, ...] in place. index and source have the same shape. Skips
/// entries whose index is `skip`.
void scatter_into(const char* op, kernels::Combine how, const Tensor& to, int axis,
                  const Tensor& index, const Tensor& source, int64_t skip = kernels::kNoSkip);

}  // namespace tern::detail
