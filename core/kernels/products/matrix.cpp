// The rule for matrices that BLAS can read in place.
#include "tern/core/kernels/products/matrix.h"

namespace tern::kernels {

bool blas_takes(int64_t rows, int64_t cols, MatrixStrides s) {
  auto fits = [](int64_t inner, int64_t inner_size, int64_t outer, int64_t outer_size) {
    return (inner == 1 || inner_size == 1) &&
           (outer_size == 1 || (outer >= inner_size && outer <= kMaxInt));
  };
  return fits(s.col, cols, s.row, rows) || fits(s.row, rows, s.col, cols);
}

}  // namespace tern::kernels
