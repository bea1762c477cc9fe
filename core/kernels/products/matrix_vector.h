// f32 products with a vector, in tern's own code: the same bits at every vector level.
// Inside of core only.
#pragma once

#include "tern/core/base/reduce.h"
#include "tern/core/kernels/products/matrix.h"

namespace tern::kernels {

/// Calls put(j, row j . x) for m rows of n numbers, `stride` apart. Groups of four rows read x
/// once. For use inside simd().
template <class T, class Put>
[[gnu::always_inline]] inline void dot_rows(const T* rows, int64_t stride, const T* x, int64_t m,
                                            int64_t n, Put put) {
  int64_t j = 0;
  for (; j + 4 <= m; j += 4) {
    const T *a = rows + j * stride, *b = a + stride, *c = b + stride, *d = c + stride;
    LaneSum<T> sa, sb, sc, sd;
    each_lane(n, [=, &sa, &sb, &sc, &sd](int64_t i, int l) {
      sa.lane[l] += a[i] * x[i];
      sb.lane[l] += b[i] * x[i];
      sc.lane[l] += c[i] * x[i];
      sd.lane[l] += d[i] * x[i];
    });
    put(j, sa.total());
    put(j + 1, sb.total());
    put(j + 2, sc.total());
    put(j + 3, sd.total());
  }
  for (; j < m; ++j) {
    const T* a = rows + j * stride;
    put(j, lane_sum<T>(n, [a, x](int64_t i) { return a[i] * x[i]; }));
  }
}

/// y += A x for A (rows, cols). Elements of x are x_stride apart, elements of y y_stride. REQUIRES:
/// blas_takes() A.
void add_matrix_vector(const Matrix<float>& a, int64_t rows, int64_t cols, const float* x,
                       int64_t x_stride, float* y, int64_t y_stride);

}  // namespace tern::kernels
