// How a batch of matrix products is carried out: axes of the batch that lie in line with rows,
// columns or sums are folded into them, and what is left is cut into panels. Depends on the shape
// alone. Inside of core only.
#pragma once

#include "tern/core/kernels/gemm.h"

namespace tern::kernels {

struct GemmPlan {
  Gemm g;              ///< folded; the batch holds only axes that C has, C's column stride is 1
  BatchAxes sums;      ///< axes along which products are summed
  bool swapped;        ///< C was transposed: A and B have changed places
  int64_t batches;     ///< products, sums counted once
  int64_t terms;       ///< products summed into one C
  int64_t rows, cols;  ///< size of a panel
  int64_t grid_rows, grid_cols;  ///< panels of one C
  int64_t group;                 ///< products that one task computes
  int64_t k_blocks;              ///< pieces of k; a unit of a sum is one piece of one term
  int64_t splits;                ///< parts of a sum that are computed apart

  int64_t units() const { return terms * k_blocks; }
};

/// `tiles`: panels are computed by multiply_tiles rather than by BLAS.
GemmPlan plan_gemm(const Gemm& gemm, bool tiles);

}  // namespace tern::kernels
