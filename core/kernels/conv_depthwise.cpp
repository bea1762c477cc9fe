#include "tern/core/kernels/conv_depthwise.h"

#include <limits>

#include "tern/core/kernels/conv_taps.h"
#include "tern/core/simd.h"
#include "tern/core/threads.h"

namespace tern::kernels {
namespace {

constexpr int64_t kGrainTaps = 32768;  // multiplications that are worth a thread

int64_t planes_per_thread(const Conv& c) { return 1 + kGrainTaps / (c.out_plane() * c.taps() + 1); }

/// Calls fn(tap, offset in the plane, index of the tap) for each tap that meets the input.
template <class Fn>
void each_tap(const Conv& c, int64_t out_row, Fn fn) {
  for (int64_t kh = 0; kh < c.kernel[0]; ++kh)
    for (int64_t kw = 0; kw < c.kernel[1]; ++kw) {
      const Tap t = tap_at(c, out_row, kh, kw);
      if (t.row >= 0) fn(t, t.row * c.width + t.first, kh * c.kernel[1] + kw);
    }
}

/// y[j * sy] += a * x[j * sx] for begin <= j < end.
template <class T>
void add_scaled(const Tap& t, T a, const T* x, int64_t sx, T* y, int64_t sy) {
  const int64_t begin = t.begin, end = t.end;
  if (sx == 1 && sy == 1) {
    simd([=] {
#pragma omp simd
      for (int64_t j = begin; j < end; ++j) y[j] += a * x[j];
    });
    return;
  }
  for (int64_t j = begin; j < end; ++j) y[j * sy] += a * x[j * sx];
}

template <class T>
T dot(const Tap& t, const T* x, int64_t sx, const T* y) {
  const int64_t begin = t.begin, end = t.end;
  if (sx == 1)
    return simd([=] {
      T s = 0;
#pragma omp simd reduction(+ : s)
      for (int64_t j = begin; j < end; ++j) s += x[j] * y[j];
      return s;
    });
  T s = 0;
  for (int64_t j = begin; j < end; ++j) s += x[j * sx] * y[j];
  return s;
}

}  // namespace

template <class T>
void conv_depthwise(const Conv& c, const T* x, const T* w, const T* bias, T* y) {
  parallel_for(c.batch * c.out, planes_per_thread(c), [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      const int64_t o = p % c.out, channel = p / c.out * c.in + o / c.out_group();
      const T start = bias ? bias[o] : T(0);
      for (int64_t r = 0; r < c.out_height; ++r) {
        T* row = y + p * c.out_plane() + r * c.out_width;
        std::fill(row, row + c.out_width, start);
        each_tap(c, r, [&](const Tap& t, int64_t at, int64_t k) {
          add_scaled(t, w[o * c.taps() + k], x + channel * c.plane() + at, c.stride[1], row, 1);
        });
      }
    }
  });
}

template <class T>
void input_grad_depthwise(const Conv& c, const T* dy, const T* w, T* dx) {
  const int64_t m = c.out_group();
  parallel_for(c.batch * c.in, planes_per_thread(c), [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      T* plane = dx + p * c.plane();
      std::fill(plane, plane + c.plane(), T(0));
      for (int64_t o = p % c.in * m; o < (p % c.in + 1) * m; ++o)
        for (int64_t r = 0; r < c.out_height; ++r) {
          const T* row = dy + (p / c.in * c.out + o) * c.out_plane() + r * c.out_width;
          each_tap(c, r, [&](const Tap& t, int64_t at, int64_t k) {
            add_scaled(t, w[o * c.taps() + k], row, 1, plane + at, c.stride[1]);
          });
        }
    }
  });
}

template <class T>
void weight_grad_depthwise(const Conv& c, const T* x, const T* dy, T* dw) {
  parallel_for(c.out, 1 + planes_per_thread(c) / (c.batch + 1), [&](int64_t first, int64_t last) {
    for (int64_t o = first; o < last; ++o) {
      T* sums = dw + o * c.taps();
      std::fill(sums, sums + c.taps(), T(0));
      for (int64_t image = 0; image < c.batch; ++image)
        for (int64_t r = 0; r < c.out_height; ++r) {
          const T* plane = x + (image * c.in + o / c.out_group()) * c.plane();
          const T* row = dy + (image * c.out + o) * c.out_plane() + r * c.out_width;
          each_tap(c, r, [&](const Tap& t, int64_t at, int64_t k) {
            sums[k] += dot(t, plane + at, c.stride[1], row);
          });
        }
    }
  });
}

template <class T>
void max_pool_positions(const Conv& c, const T* x, int64_t* positions) {
  parallel_for(c.batch * c.in, planes_per_thread(c), [&](int64_t first, int64_t last) {
    for (int64_t p = first; p < last; ++p) {
      const T* plane = x + p * c.plane();
      for (int64_t r = 0; r < c.out_height; ++r) {
        int64_t* best = positions + p * c.out_plane() + r * c.out_width;
        std::fill(best, best + c.out_width, int64_t{-1});
        each_tap(c, r, [&](const Tap& t, int64_t at, int64_t) {
          for (int64_t j = t.begin; j < t.end; ++j) {
            const int64_t here = at + j * c.stride[1];
            const T v = plane[here];
            if (best[j] < 0) {
              best[j] = here;
              continue;
            }
            const T old = plane[best[j]];
            if (v > old || (v != v && old == old)) best[j] = here;
          }
        });
      }
    }
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
