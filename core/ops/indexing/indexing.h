// Reading and writing at positions that other tensors give. See ops.h for gather, index_select,
// take_along_axis and embedding. Indices are i64. An index out of range is an error that names it.
// Names and gradients are PyTorch's.
#pragma once

#include <vector>

#include "tern/core/ops/ops.h"

namespace tern {

// ---- Elements that are not 0 ------------------------------------------------------------------
/// The indices of the K elements that are not 0, in row-major order: i64 (K, number of axes of x).
Tensor nonzero(const Tensor& x);
/// The same as one (K) tensor per axis: PyTorch's nonzero(as_tuple=True).
[[nodiscard]] std::vector<Tensor> nonzero_as_tuple(const Tensor& x);
/// The elements of x where the mask (u8) is not 0, as a vector (K). x and mask broadcast.
Tensor masked_select(const Tensor& x, const Tensor& mask);

// ---- Advanced indexing -----------------------------------------------------------------------
// `indices` has one entry for each of the first axes of x. An entry is an i64 tensor (negative
// numbers count from the end), a u8 mask that covers as many axes as it has, or an undefined tensor
// for the whole axis. The i64 tensors broadcast to one shape B. B replaces the indexed axes if
// these are neighbours; otherwise B comes first.

/// x[indices].
Tensor index(const Tensor& x, const std::vector<Tensor>& indices);
/// A copy of x with x[indices] = values, or x[indices] += values if `accumulate`. values broadcast
/// to the shape of x[indices]. If several values go to one element, the last one stays.
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                 bool accumulate = false);

// ---- Along an axis ---------------------------------------------------------------------------
/// A copy of x with x[..., index[k], ...] += alpha * source[..., k, ...]; index (K).
Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                 double alpha = 1);
/// A copy of x with x[index[i][j]][j] = source[i][j] for axis 0. Index and source as in
/// scatter_add. If several values go to one element, the last one along the axis stays.
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, Scalar value);
enum class ScatterReduce { sum, prod, mean, amax, amin };
/// As scatter, but reduces all values that go to one element, x itself included if include_self. A
/// mean of integers is rounded down. Equal extremes share the gradient; x counts among them only if
/// it is included (PyTorch: always). A product with two zeros among its sources has no second
/// derivative (an error).
Tensor scatter_reduce(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                      ScatterReduce reduce, bool include_self = true);

// ---- Grids -----------------------------------------------------------------------------------
enum class Indexing { ij, xy };
/// Expands vectors of n, m, ... elements to (n, m, ...) each, with xy to (m, n, ...), as for
/// images.
[[nodiscard]] std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors,
                                           Indexing indexing = Indexing::ij);

}  // namespace tern
