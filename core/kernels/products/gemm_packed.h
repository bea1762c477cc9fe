// Products with a matrix that is packed once and used many times, as in decoding:
// y = f(x W^T + b) + residual, with W (n, k) in strips of 32 outputs. Each element is one sum in
// order of k, so a row's bits do not depend on the other rows. Runs in the calling thread.
// Inside of core only.
#pragma once

#include <algorithm>

#include "tern/core/base/ceil_div.h"

namespace tern::kernels {

constexpr int64_t kStrip = 32;  ///< outputs per strip

inline int64_t strips_of(int64_t n) { return ceil_div(n, kStrip); }

/// The operations on a sum before it is stored. Arrays have one number per output. bias is padded
/// to whole strips.
struct StripEnd {
  const float* bias;
  bool relu = false;
  const float* residual = nullptr;  ///< rows residual_stride apart; added last
  int64_t residual_stride = 0;
};

/// Part i of n of the rows, which cuts between tiles: the tiles first .. last of `tiles`.
struct RowPart {
  int64_t i = 0, n = 1;
  int64_t first(int64_t tiles) const { return tiles * i / n; }
  int64_t last(int64_t tiles) const { return tiles * (i + 1) / n; }
};

/// The outputs of strips first .. last of y (rows, n), or a part of their rows. Rows of x and y are
/// x_stride and y_stride apart. y and the residual of StripEnd point to row 0 of the outputs of
/// strip `first`.
struct StripRange {
  int64_t rows, n, k;
  int64_t first, last;
  RowPart part = {};
  int64_t width(int64_t strip) const { return std::min(kStrip, n - strip * kStrip); }
};

/// Up to kMemoryBound rows, memory limits a product. It reads W once, and its tiles prefetch data
/// kAhead bytes ahead.
constexpr int64_t kMemoryBound = 4, kAhead = 4096;
[[gnu::always_inline]] inline void fetch_ahead(const void* at) {
  __builtin_prefetch(static_cast<const char*>(at) + kAhead, 0, 2);
}

/// For more rows: prefetches piece i of n of `bytes`. Calls between the tiles of a strip load the
/// next strip piece by piece, since packed weights rarely stay in the second cache.
inline void fetch_piece(const void* data, int64_t bytes, int64_t i, int64_t n) {
  constexpr int64_t kLine = 64;
  const char* p = static_cast<const char*>(data);
  for (int64_t at = bytes * i / n / kLine * kLine; at < bytes * (i + 1) / n; at += kLine)
    __builtin_prefetch(p + at, 0, 2);
}

/// packed[(j / 32) (k, 32)] of w (n, k), with zeros beyond n: strips_of(n) * 32 * k numbers.
void pack_strips(const float* w, int64_t n, int64_t k, float* packed);

void multiply_strips(const StripRange& range, const float* x, int64_t x_stride, const float* packed,
                     float* y, int64_t y_stride, const StripEnd& end);

/// y[i] = x (k) times row list[i] of w (n, k) + bias, summed in the order of lane_sum.
void multiply_some(const float* x, const float* w, int64_t k, const float* bias,
                   const int64_t* list, int64_t count, float* y);

}  // namespace tern::kernels
