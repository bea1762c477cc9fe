// Reading and adding at positions that another array gives. Index arrays are i64; they must have
// been checked (first_out_of_range) before. Inside of core only.
#pragma once

#include <cstdint>

#include "tern/core/base/dtype.h"
#include "tern/core/base/loops.h"

namespace tern::kernels {

/// Row-major position of the first of the elements that is not in [0, size); -1 if there is none.
/// Operand 0 of the loops is the index.
int64_t first_out_of_range(const Loops& loops, const int64_t* index, int64_t size);

/// An index value that stands for nothing: it reads zero, and nothing is added there.
constexpr int64_t kNoSkip = -1;

/// to[i] = from[i + index[i] * stride]. Operands: to, index, from (stride 0 along the axis that is
/// indexed). Moves items of any type of the given size.
void gather(const Loops& loops, int64_t item_size, void* to, const int64_t* index, const void* from,
            int64_t stride, int64_t skip);

/// The axis that scatter_add indexes: its length in index and from, and the strides along it.
struct ScatterAxis {
  int64_t size, to_stride, index_stride, from_stride;
};

/// to[line + index[line, k] * to_stride] += from[line, k] for every line of the loops, k ascending.
/// Operands: to, index, from, over all axes but the one indexed. Lines share no elements of `to`,
/// so the sums do not depend on how lines are split among threads.
void scatter_add(DType type, const Loops& lines, const ScatterAxis& axis, void* to,
                 const int64_t* index, const void* from, int64_t skip);

}  // namespace tern::kernels
