// What matrix products take and give: where the elements of a matrix lie, and panels of a result.
// Inside of core only.
#pragma once

#include <cstdint>
#include <functional>

namespace tern::kernels {

/// The largest size or stride that is handed to BLAS, which counts in 32 bits.
constexpr int64_t kMaxInt = int64_t{1} << 30;

/// Element (i, j) of a matrix lies at data[i * row + j * col].
struct MatrixStrides {
  int64_t row = 0, col = 0;
};

/// Whether BLAS can read a rows x cols matrix where it lies: one stride is 1 and the other reaches
/// over the first (the stride of an axis of size 1 does not count). Others must be copied first.
bool blas_takes(int64_t rows, int64_t cols, MatrixStrides strides);

/// A finished part of C: `rows` runs of `cols` elements without gaps, `stride` apart, the first
/// at C + offset.
struct Panel {
  int64_t offset, rows, cols, stride;
};

/// Called on each panel of C as soon as its sums are complete, while it is in the cache; from
/// several threads at a time. Panels cover every element of C once.
using PanelDone = std::function<void(const Panel&)>;

}  // namespace tern::kernels
