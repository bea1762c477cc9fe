// Products with a matrix that is packed once and used many times: y = f(x W^T + b) + residual with
// W (n, k) in strips of 32 outputs, as decoding does at every step. Each element is one sum in
// order of k, whatever the number of rows: a row's bits do not depend on the rows beside it.
// Everything runs in the calling thread. Inside of core only.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tern::kernels {

constexpr int64_t kStrip = 32;  ///< outputs side by side

inline int64_t strips_of(int64_t n) { return (n + kStrip - 1) / kStrip; }

/// What happens to a sum before it is stored. Arrays have a number for each of the n outputs; bias
/// is padded to whole strips.
struct StripEnd {
  const float* bias;
  bool relu = false;
  const float* residual = nullptr;  ///< rows residual_stride apart; added last
  int64_t residual_stride = 0;
};

/// Outputs of strips first .. last of y (rows, n), the rows of x and y x_stride and y_stride apart.
/// y points to the output of strip `first`, and so does the end's residual.
struct StripRange {
  int64_t rows, n, k;
  int64_t first, last;
  int64_t width(int64_t strip) const { return std::min(kStrip, n - strip * kStrip); }
};

/// Up to so many rows a product is bound by memory: it reads W once, and its tiles ask for what
/// they will read kAhead bytes later.
constexpr int64_t kMemoryBound = 4, kAhead = 4096;
[[gnu::always_inline]] inline void fetch_ahead(const void* at) {
  __builtin_prefetch(static_cast<const char*>(at) + kAhead, 0, 2);
}

/// For more rows. Asks for part i of n of `bytes` to be brought near: the strip after the one that
/// is multiplied, piece by piece between its tiles, since packed weights seldom stay in the second
/// cache.
inline void fetch_part(const void* data, int64_t bytes, int64_t i, int64_t n) {
  constexpr int64_t kLine = 64;
  const char* p = static_cast<const char*>(data);
  for (int64_t at = bytes * i / n / kLine * kLine; at < bytes * (i + 1) / n; at += kLine)
    __builtin_prefetch(p + at, 0, 2);
}

/// packed[(j / 32) (k, 32)] of w (n, k), zeros behind n: strips_of(n) * 32 * k numbers.
void pack_strips(const float* w, int64_t n, int64_t k, float* packed);

void multiply_strips(const StripRange& range, const float* x, int64_t x_stride, const float* packed,
                     float* y, int64_t y_stride, const StripEnd& end);

/// y[i] = x (k) times row list[i] of w (n, k) + bias: sums in the order of vector code.
void multiply_some(const float* x, const float* w, int64_t k, const float* bias,
                   const int64_t* list, int64_t count, float* y);

}  // namespace tern::kernels
