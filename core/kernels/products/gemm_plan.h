// Plans a batch of matrix products. Batch axes in line with rows, columns or sums are folded into
// them. The rest is cut into panels. Cuts of sums depend only on the shape. Inside of core only.
#pragma once

#include "tern/core/kernels/products/gemm.h"

namespace tern::kernels {

struct GemmPlan {
  Gemm g;                        ///< folded: the batch has only C's axes; C has column stride 1
  BatchAxes sums;                ///< axes over which products are summed
  bool swapped;                  ///< C was transposed: A and B are swapped
  int64_t batches;               ///< number of products; a sum of products counts once
  int64_t terms;                 ///< number of products summed into one C
  int64_t rows, cols;            ///< size of a panel
  int64_t grid_rows, grid_cols;  ///< panels of one C
  int64_t group;                 ///< products per task
  int64_t k_blocks;              ///< pieces of k; a unit of a sum is one piece of one term
  int64_t splits;                ///< parts of a sum that are computed separately

  int64_t units() const { return terms * k_blocks; }
};

/// `tiles`: our own tiles compute the panels, not BLAS. Then panels may also depend on `threads`,
/// which changes no bit.
GemmPlan plan_gemm(const Gemm& gemm, bool tiles, int64_t threads = 1);

}  // namespace tern::kernels
