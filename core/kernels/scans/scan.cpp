// Cumulative sums, products and extremes, in blocks of 64 neighbouring lines.
#include "tern/core/kernels/scans/scan.h"

#include <algorithm>
#include <type_traits>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/elementwise/arithmetic.h"

namespace tern::kernels {
namespace {

constexpr int64_t kScanGrain = 16384;  // elements per thread, at least
constexpr int64_t kPerTask = 64;       // lines processed side by side, in memory order

// Calls body(first element, columns) for blocks of neighbouring lines.
template <class Body>
void for_each_strip(int64_t outer, int64_t n, int64_t inner, Body body) {
  const int64_t blocks = ceil_div(inner, kPerTask);
  const int64_t work = std::max<int64_t>(1, n * std::min(inner, kPerTask));
  parallel_for(outer * blocks, kScanGrain / work + 1, [=](int64_t begin, int64_t end) {
    for (int64_t task = begin; task < end; ++task) {
      const int64_t column = task % blocks * kPerTask;
      body(task / blocks * n * inner + column, std::min(kPerTask, inner - column));
    }
  });
}

// Whether `next` replaces `best`. Only NaN replaces NaN.
template <class T>
bool goes_on(bool largest, T next, T best) {
  if (next != next) return true;
  return best == best && (largest ? next >= best : next <= best);
}

// y[i] = the result of `combine` over all elements up to x[i], from `start`. In double, since a
// rounding error stays in all later results, and with equal elements errors add up in one
// direction.
template <class T, class Out, class Combine>
void cumulate(const T* x, Out* y, int64_t outer, int64_t n, int64_t inner, int start,
              Combine combine) {
  using Wide = std::conditional_t<std::is_floating_point_v<Out>, double, Out>;
  for_each_strip(outer, n, inner, [=](int64_t at, int64_t columns) {
    if (inner == 1) {  // in a register
      Wide total = static_cast<Wide>(start);
      for (int64_t i = at; i < at + n; ++i) {
        total = combine(total, static_cast<Wide>(x[i]));
        y[i] = static_cast<Out>(total);
      }
      return;
    }
    Wide total[kPerTask];
    std::fill(total, total + columns, static_cast<Wide>(start));
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < columns; ++j) {
        total[j] = combine(total[j], static_cast<Wide>(x[at + i * inner + j]));
        y[at + i * inner + j] = static_cast<Out>(total[j]);
      }
  });
}

}  // namespace

template <class T, class Out>
void cumsum(const T* x, Out* y, int64_t outer, int64_t n, int64_t inner) {
  cumulate(x, y, outer, n, inner, 0, Add());
}

template <class T, class Out>
void cumprod(const T* x, Out* y, int64_t outer, int64_t n, int64_t inner) {
  cumulate(x, y, outer, n, inner, 1, Multiply());
}

template <class T>
void cumulative_extreme(bool largest, const T* x, T* y, int64_t* indices, int64_t outer, int64_t n,
                        int64_t inner) {
  for_each_strip(outer, n, inner, [=](int64_t at, int64_t columns) {
    for (int64_t j = 0; j < columns; ++j) {
      T best = x[at + j];
      int64_t where = 0;
      for (int64_t i = 0; i < n; ++i) {
        const int64_t k = at + i * inner + j;
        if (goes_on(largest, x[k], best)) {
          best = x[k];
          where = i;
        }
        y[k] = best;
        indices[k] = where;
      }
    }
  });
}

template void cumsum(const float*, float*, int64_t, int64_t, int64_t);
template void cumsum(const double*, double*, int64_t, int64_t, int64_t);
template void cumsum(const int64_t*, int64_t*, int64_t, int64_t, int64_t);
template void cumsum(const uint8_t*, int64_t*, int64_t, int64_t, int64_t);
template void cumprod(const float*, float*, int64_t, int64_t, int64_t);
template void cumprod(const double*, double*, int64_t, int64_t, int64_t);
template void cumprod(const int64_t*, int64_t*, int64_t, int64_t, int64_t);
template void cumprod(const uint8_t*, int64_t*, int64_t, int64_t, int64_t);
template void cumulative_extreme(bool, const float*, float*, int64_t*, int64_t, int64_t, int64_t);
template void cumulative_extreme(bool, const double*, double*, int64_t*, int64_t, int64_t, int64_t);
template void cumulative_extreme(bool, const int64_t*, int64_t*, int64_t*, int64_t, int64_t,
                                 int64_t);
template void cumulative_extreme(bool, const uint8_t*, uint8_t*, int64_t*, int64_t, int64_t,
                                 int64_t);

}  // namespace tern::kernels
