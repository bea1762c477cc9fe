// Adds the product of an f32 matrix and a vector: by dot products if rows are contiguous, else
// column by column in bands.
#include "tern/core/kernels/products/matrix_vector.h"

#include <algorithm>

#include "tern/core/base/simd.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr int64_t kBand = 1024;  // sums that stay in the first cache

/// y += A x for a band of at most kBand rows; columns of A are contiguous and `stride` apart.
[[gnu::always_inline]] inline void add_columns(const float* a, int64_t stride, int64_t rows,
                                               int64_t cols, const float* x, float* y,
                                               int64_t y_stride) {
  alignas(64) float sum[kBand];
  for (int64_t i = 0; i < rows; ++i) sum[i] = 0;
  int64_t k = 0;
  for (; k + 4 <= cols; k += 4) {
    const float *c0 = a + k * stride, *c1 = c0 + stride, *c2 = c1 + stride, *c3 = c2 + stride;
    const float x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
#pragma omp simd
    for (int64_t i = 0; i < rows; ++i)
      sum[i] = (((sum[i] + x0 * c0[i]) + x1 * c1[i]) + x2 * c2[i]) + x3 * c3[i];
  }
  for (; k < cols; ++k) {
    const float* c = a + k * stride;
#pragma omp simd
    for (int64_t i = 0; i < rows; ++i) sum[i] += x[k] * c[i];
  }
  for (int64_t i = 0; i < rows; ++i) y[i * y_stride] += sum[i];
}

}  // namespace

void add_matrix_vector(const Matrix<float>& a, int64_t rows, int64_t cols, const float* x,
                       int64_t x_stride, float* y, int64_t y_stride) {
  Scratch<float> contiguous(x_stride == 1 ? 0 : cols);
  if (x_stride != 1) {
    for (int64_t k = 0; k < cols; ++k) contiguous.data()[k] = x[k * x_stride];
    x = contiguous.data();
  }
  const float* data = numbers(a.data);
  const MatrixStrides s = a.strides;
  if (cols == 1 ? s.row != 1 : s.col == 1) {
    simd([=] {
      dot_rows(data, s.row, x, rows, cols, [=](int64_t i, float sum) { y[i * y_stride] += sum; });
    });
    return;
  }
  for (int64_t i = 0; i < rows; i += kBand)
    simd([=] {
      add_columns(data + i, s.col, std::min(kBand, rows - i), cols, x, y + i * y_stride, y_stride);
    });
}

}  // namespace tern::kernels
