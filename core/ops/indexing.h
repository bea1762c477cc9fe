// Reading and writing at positions that other tensors give, beside gather, index_select,
// take_along_axis and embedding of ops.h. Indices are i64 (u8 counts as well, except where it is a
// mask). An index beyond its axis is an error that says which. Names and gradients are PyTorch's.
#pragma once

#include <vector>

#include "tern/core/ops/ops.h"

namespace tern {

// ---- Where a tensor is not 0 -----------------------------------------------------------------
/// (K, axes of x) i64: the indices of the K elements that are not 0, in row-major order.
Tensor nonzero(const Tensor& x);
/// The same as a list of K indices for each axis: PyTorch's nonzero(as_tuple=True).
std::vector<Tensor> nonzero_as_tuple(const Tensor& x);
/// (K,): the elements of x where the mask (u8) is not 0; the two broadcast.
Tensor masked_select(const Tensor& x, const Tensor& mask);

// ---- Advanced indexing -----------------------------------------------------------------------
// An index for each of the first axes: i64 tensors that broadcast to one shape B and may count from
// the end; u8 masks, which stand for as many axes as they have; an undefined tensor takes the whole
// axis. In the result B stands where the indexed axes stood if these are neighbours, else in front.

/// x[indices].
Tensor index(const Tensor& x, const std::vector<Tensor>& indices);
/// x with x[indices] = values, or x[indices] += values (accumulate), where values broadcast to the
/// shape of x[indices]. Of several values for one element the last one stays.
Tensor index_put(const Tensor& x, const std::vector<Tensor>& indices, const Tensor& values,
                 bool accumulate = false);

// ---- Along an axis ---------------------------------------------------------------------------
/// x with x[..., index[k], ...] += alpha source[..., k, ...]; index (K,).
Tensor index_add(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                 double alpha = 1);
/// x with x[index[i][j]][j] = source[i][j] for axis 0. Index and source as in scatter_add. Of
/// several values for one element the last one along the axis stays.
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source);
Tensor scatter(const Tensor& x, int64_t axis, const Tensor& index, Scalar value);
enum class ScatterReduce { sum, prod, mean, amax, amin };
/// The same with all values for one element, and with x itself (include_self), reduced. The mean of
/// integers is rounded down; the largest and smallest share their gradient. A product with two
/// zeros among its sources has no second derivative (an error).
Tensor scatter_reduce(const Tensor& x, int64_t axis, const Tensor& index, const Tensor& source,
                      ScatterReduce reduce, bool include_self = true);

// ---- Grids -----------------------------------------------------------------------------------
enum class Indexing { ij, xy };
/// Vectors of n, m, ... elements, each expanded to (n, m, ...); xy: (m, n, ...), as for pictures.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& vectors, Indexing indexing = Indexing::ij);

}  // namespace tern
