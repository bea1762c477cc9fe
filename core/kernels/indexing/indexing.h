// Reads and writes at positions that an index array gives. Index arrays are i64 and must have been
// checked (first_out_of_range). Inside of core only.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/core/base/dtype.h"
#include "tern/core/kernels/loops.h"

namespace tern::kernels {

/// Row-major position of the first index outside [0, size); -1 if there is none. Operand 0 of the
/// loops is the index.
int64_t first_out_of_range(const Loops& loops, const int64_t* index, int64_t size);

/// The value of `skip` if no index is skipped. A skipped index reads zero and writes nothing.
constexpr int64_t kNoSkip = -1;

/// to[i] = from[i + index[i] * stride]. Operands: to, index, from (with stride 0 along the indexed
/// axis). Moves items of any type with this size.
void gather(const Loops& loops, int64_t item_size, void* to, const int64_t* index, const void* from,
            int64_t stride, int64_t skip);

/// How scatter combines the old and the new value. largest and smallest give NaN if either is NaN.
enum class Combine { set, add, multiply, largest, smallest };

/// The axis that scatter indexes: its length in index and from, and the strides along it.
struct ScatterAxis {
  int64_t size, to_stride, index_stride, from_stride;
};

/// to[line + index[line, k] * to_stride] gets from[line, k], for every line of the loops and
/// ascending k. Operands: to, index, from, over all axes but the indexed one. Lines share no
/// elements of `to`, so results do not depend on how threads share the lines.
void scatter(DType type, Combine how, const Loops& lines, const ScatterAxis& axis, void* to,
             const int64_t* index, const void* from, int64_t skip);

/// Row-major positions of the nonzero elements among n contiguous ones.
std::vector<int64_t> nonzero(DType type, const void* x, int64_t n);

}  // namespace tern::kernels
