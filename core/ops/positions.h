// What the ops that index share: checks, and how an index is spread over axes. Inside of core only.
#pragma once

#include "tern/core/kernels/indexing.h"
#include "tern/core/ops/ops.h"

namespace tern::detail {

/// The index as i64 (u8 counts too), after a check that it lies in [0, size). `shown` is what an
/// error shows in its place, as it was given.
Tensor checked_index(const char* op, const Tensor& index, int64_t size, const Tensor& shown = {});

/// The axes other than the indexed one must be as long in x as in the index, or longer.
void check_covers(const char* op, const Tensor& x, const Tensor& index, int axis);

/// index (K,) seen in `shape`, whose axis has size K: stride 0 along the other axes.
Tensor spread(const Tensor& index, int axis, const Shape& shape);

/// A tensor without axes as one of shape (1,).
inline Tensor with_axes(const Tensor& x) { return x.ndim() == 0 ? reshape(x, {1}) : x; }

/// The part of `source` that the index covers.
Tensor covered(const Tensor& source, const Tensor& index);

/// to[..., index, ...] gets source, where index and source have one shape; written in place.
/// Nothing is written at the index `skip`.
void scatter_into(const char* op, kernels::Combine how, const Tensor& to, int axis,
                  const Tensor& index, const Tensor& source, int64_t skip = kernels::kNoSkip);

}  // namespace tern::detail
