// Our own product of f32 matrices for processors with AVX-512. It packs less than BLAS for small
// and middle sizes, and does not depend on which kernels BLAS takes for them. Inside of core only.
#pragma once

#include "tern/core/kernels/matrix.h"

namespace tern::kernels {

/// Whether multiply_tiles may be called: simd() runs AVX-512 code.
bool tiles_available();

/// In this thread, for m, n, k >= 1. Every element is summed in order of k by fused
/// multiplications, in blocks that depend on k alone: its bits depend neither on the size of the
/// product nor on its place in C. REQUIRES: blas_takes() A and B.
void multiply_tiles(const Product<float>& p);

/// The same in all threads, which share a packed A or B, with panels handed to `done` as they are
/// complete: for products of at least kWorthTogether multiplications and additions.
void multiply_tiles_together(const Product<float>& p, const PanelDone& done);
constexpr double kWorthTogether = 2e7;

/// A B (rows, columns) that several products share, packed before them.
struct PackedTiles {
  int64_t rows, columns;
  float* data;
  /// Numbers that `data` has room for.
  static int64_t size(int64_t rows, int64_t columns);
};
void pack_tiles(const Matrix<float>& b, const PackedTiles& to);

/// In this thread, with the first k rows and n columns of what is packed as B. Blocks of k are as
/// long as they can be: the sums over some of the rows begin like those over all of them.
void multiply_packed_tiles(const Product<float>& p, const PackedTiles& b);

/// The most columns of C that multiply_tiles keeps in the cache; more are slower.
constexpr int64_t kMaxTileColumns = 512;

}  // namespace tern::kernels
