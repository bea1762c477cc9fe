// Our own f32 matrix product, for AVX-512, AVX2 and NEON (MatmulBackend::tiles). It packs less than
// BLAS for small and medium sizes, and does not depend on BLAS's choice of kernels. An element has
// the same bits with every vector unit. Inside of core only.
#pragma once

#include "tern/core/kernels/products/matrix.h"
#include "tern/core/kernels/products/tile_set.h"

namespace tern::kernels {

/// Computes a product on this thread, for m, n, k >= 1. Sums every element in order of k by fused
/// multiply-adds, in blocks that depend only on k. So an element's bits depend neither on m and n
/// nor on its place in C. REQUIRES, for all functions below too: blas_takes() A and B; not
/// products_by_blas().
void multiply_tiles(const Product<float>& p);

/// Computes a product on all threads, which share a packed A, B or both. Calls `done` on each panel
/// when it is complete. For products of at least kWorthTogether multiplications and additions.
void multiply_tiles_together(const Product<float>& p, const PanelDone& done);
constexpr double kWorthTogether = 2e7;

/// A B (rows, columns) that several products share, packed in advance.
struct PackedTiles {
  int64_t rows, columns;
  float* data;
  /// Number of elements of `data`.
  static int64_t size(int64_t rows, int64_t columns);
};
void pack_tiles(const Matrix<float>& b, const PackedTiles& to);

/// Computes a product on this thread, with the first k rows and n columns of the packed matrix as
/// B. Blocks of k have maximal length, so that sums over the first rows have the same blocks as
/// sums over all rows.
void multiply_packed_tiles(const Product<float>& p, const PackedTiles& b);

/// The tiles themselves.
const TileSet& f32_tiles();

/// The largest number of columns of C that multiply_tiles keeps in cache; with more it is slower.
constexpr int64_t kMaxTileColumns = 512;

}  // namespace tern::kernels
