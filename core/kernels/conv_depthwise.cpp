#include "tern/core/kernels/conv_depthwise.h"

#include <algorithm>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/conv_taps.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr int64_t kGrainTaps = 32768;  // multiplications per thread, at least

int64_t planes_per_thread(const Conv& c) { return 1 + kGrainTaps / (c.out_plane() * c.taps() + 1); }

/// Calls fn(tap, offset in the plane, index of the tap) for each tap that reads the input.
template <class Fn>
[[gnu::always_inline]] inline void each_tap(const Conv& c, int64_t out_row, Fn fn) {
  int64_t k = 0;
  for (int64_t kd = 0; kd < c.kernel[0]; ++kd)
    for (int64_t kh = 0; kh < c.kernel[1]; ++kh)
      for (int64_t kw = 0; kw < c.kernel[2]; ++kw, ++k) {
        const Tap t = tap_at(c, out_row, kd, kh, kw);
        if (t.row >= 0) fn(t, t.row * c.width() + t.first, k);
      }
}

/// y[j * sy] += a * x[j * sx] for begin <= j < end.
template <class T>
[[gnu::always_inline]] inline void add_scaled(const Tap& t, T a, const T* x, int64_t sx, T* y,
                                              int64_t sy) {
  if (sx == 1 && sy == 1) {
#pragma omp simd
    for (int64_t j = t.begin; j < t.end; ++j) y[j] += a * x[j];
  } else {
#pragma omp simd
    for (int64_t j = t.begin; j < t.end; ++j) y[j * sy] += a * x[j * sx];
  }
}

template <class T>
[[gnu::always_inline]] inline T dot(const Tap& t, const T* x, int64_t sx, const T* y) {
  const int64_t n = std::max<int64_t>(t.end - t.begin, 0);
  x += t.begin * sx;
  y += t.begin;
  if (sx == 1) return lane_sum<T>(n, [x, y](int64_t j) { return x[j] * y[j]; });
  return lane_sum<T>(n, [x, y, sx](int64_t j) { return x[j * sx] * y[j]; });
}

/// Computes one plane of the output.
template <class T>
[[gnu::always_inline]] inline void forward_plane(const Conv& c, const T* x, const T* w, T start,
                                                 T* y) {
  for (int64_t r = 0; r < c.out_rows(); ++r) {
    T* row = y + r * c.out_width();
    for (int64_t j = 0; j < c.out_width(); ++j) row[j] = start;
    each_tap(c, r, [&](const Tap& t, int64_t at, int64_t k) {
      add_scaled(t, w[k], x + at, c.stride[2], row, 1);
    });
  }
}

template <class T>
[[gnu::always_inline]] inline void backward_plane(const Conv& c, const T* dy, const T* w, T* dx) {
  for (int64_t r = 0; r < c.out_rows(); ++r) {
    const T* row = dy + r * c.out_width();
    each_tap(c, r, [&](const Tap& t, int64_t at, int64_t k) {
      add_scaled(t, w[k], row, 1, dx + at, c.stride[2]);
    });
  }
}

template <class T>
[[gnu::always_inline]] inline void add_weight_grad(const Conv& c, const T* x, const T* dy, T* dw) {
  for (int64_t r = 0; r < c.out_rows(); ++r) {
    const T* row = dy + r * c.out_width();
    each_tap(c, r, [&](const Tap& t, int64_t at, int64_t k) {
      dw[k] += dot(t, x + at, c.stride[2], row);
    });
  }
}

/// `largest` is memory for a row of the output.
template <class T>
[[gnu::always_inline]] inline void max_plane(const Conv& c, const T* x, T* largest,
                                             int64_t* positions) {
  for (int64_t r = 0; r < c.out_rows(); ++r) {
    int64_t* best = positions + r * c.out_width();
    for (int64_t j = 0; j < c.out_width(); ++j) best[j] = -1;
    each_tap(c, r, [&](const Tap& t, int64_t at, int64_t) {
#pragma omp simd
      for (int64_t j = t.begin; j < t.end; ++j) {
        const T v = x[at + j * c.stride[2]], old = largest[j];
        const bool better = (best[j] < 0) | (v > old) | ((v != v) & (old == old));
        largest[j] = better ? v : old;
        best[j] = better ? at + j * c.stride[2] : best[j];
      }
    });
  }
}

}  // namespace

template <class T>
void conv_depthwise(const Conv& c, const T* x, const T* w, const T* bias, T* y) {
  parallel_for(c.batch * c.out, planes_per_thread(c), [&](int64_t first, int64_t last) {
    simd([=] {
      for (int64_t p = first; p < last; ++p) {
        const int64_t o = p % c.out, channel = p / c.out * c.in + o / c.out_group();
        forward_plane(c, x + channel * c.plane(), w + o * c.taps(), bias ? bias[o] : T(0),
                      y + p * c.out_plane());
      }
    });
  });
}

template <class T>
void input_grad_depthwise(const Conv& c, const T* dy, const T* w, T* dx) {
  parallel_for(c.batch * c.in, planes_per_thread(c), [&](int64_t first, int64_t last) {
    std::fill(dx + first * c.plane(), dx + last * c.plane(), T(0));
    simd([=, m = c.out_group()] {
      for (int64_t p = first; p < last; ++p)
        for (int64_t o = p % c.in * m; o < (p % c.in + 1) * m; ++o)
          backward_plane(c, dy + (p / c.in * c.out + o) * c.out_plane(), w + o * c.taps(),
                         dx + p * c.plane());
    });
  });
}

template <class T>
void weight_grad_depthwise(const Conv& c, const T* x, const T* dy, T* dw) {
  parallel_for(c.out, 1 + planes_per_thread(c) / (c.batch + 1), [&](int64_t first, int64_t last) {
    std::fill(dw + first * c.taps(), dw + last * c.taps(), T(0));
    simd([=] {
      for (int64_t o = first; o < last; ++o)
        for (int64_t image = 0; image < c.batch; ++image)
          add_weight_grad(c, x + (image * c.in + o / c.out_group()) * c.plane(),
                          dy + (image * c.out + o) * c.out_plane(), dw + o * c.taps());
    });
  });
}

template <class T>
void max_pool_positions(const Conv& c, const T* x, int64_t* positions) {
  parallel_for(c.batch * c.in, planes_per_thread(c), [&](int64_t first, int64_t last) {
    Scratch<T> row(c.out_width());
    std::fill(row.data(), row.data() + c.out_width(), T(0));
    simd([=, largest = row.data()] {
      for (int64_t p = first; p < last; ++p)
        max_plane(c, x + p * c.plane(), largest, positions + p * c.out_plane());
    });
  });
}

template void conv_depthwise(const Conv&, const float*, const float*, const float*, float*);
template void conv_depthwise(const Conv&, const double*, const double*, const double*, double*);
template void input_grad_depthwise(const Conv&, const float*, const float*, float*);
template void input_grad_depthwise(const Conv&, const double*, const double*, double*);
template void weight_grad_depthwise(const Conv&, const float*, const float*, float*);
template void weight_grad_depthwise(const Conv&, const double*, const double*, double*);
template void max_pool_positions(const Conv&, const float*, int64_t*);
template void max_pool_positions(const Conv&, const double*, int64_t*);

}  // namespace tern::kernels
