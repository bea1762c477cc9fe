#include <algorithm>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/normalise.h"

namespace tern::kernels {
namespace {

// Channels are independent of each other: body(c) for all, in parallel.
template <class Body>
void for_each_channel(int64_t channels, int64_t elements, Body body) {
  constexpr int64_t kWork = 1 << 14;
  parallel_for(channels, std::max<int64_t>(1, kWork / std::max<int64_t>(elements, 1)),
               [=](int64_t begin, int64_t end) {
                 for (int64_t c = begin; c < end; ++c) body(c);
               });
}

}  // namespace

template <class T>
void channel_statistics(const T* x, T* mean, T* var, int64_t batch, int64_t channels,
                        int64_t size) {
  const double count = static_cast<double>(batch * size);
  for_each_channel(channels, batch * size, [=](int64_t c) {
    simd([=] {
      double sum = 0, squares = 0;
      for (int64_t b = 0; b < batch; ++b)
        sum += sum_of<double>(x + (b * channels + c) * size, size);
      const double centre = sum / count;
      for (int64_t b = 0; b < batch; ++b) {
        const T* run = x + (b * channels + c) * size;
        squares += lane_sum<double>(size, [run, centre](int64_t j) {
          const double d = static_cast<double>(run[j]) - centre;
          return d * d;
        });
      }
      mean[c] = static_cast<T>(centre);
      var[c] = static_cast<T>(squares / count);
    });
  });
}

template <class T>
void batch_norm(const T* x, const T* mean, const T* rstd, const T* weight, const T* bias, T* y,
                int64_t batch, int64_t channels, int64_t size) {
  for_each_channel(channels, batch * size, [=](int64_t c) {
    simd([=] {
      const T m = mean[c], scale = rstd[c] * weight[c], shift = bias[c];
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t at = (b * channels + c) * size;
#pragma omp simd
        for (int64_t j = at; j < at + size; ++j) y[j] = (x[j] - m) * scale + shift;
      }
    });
  });
}

template <class T>
void batch_norm_backward(const T* dy, const T* x, const T* weight, const T* mean, const T* rstd,
                         T* dx, T* dweight, T* dbias, int64_t batch, int64_t channels,
                         int64_t size) {
  const double count = static_cast<double>(batch * size);
  for_each_channel(channels, batch * size, [=](int64_t c) {
    simd([=] {
      const T m = mean[c], r = rstd[c], scale = r * weight[c];
      double sum = 0, sum_x = 0;
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t at = (b * channels + c) * size;
        LaneSum<double> s, t;
        each_lane(size, [=, &s, &t, d = dy + at, x = x + at](int64_t j, int l) {
          s.lane[l] += static_cast<double>(d[j]);
          t.lane[l] += static_cast<double>(d[j] * ((x[j] - m) * r));
        });
        sum += s.total();
        sum_x += t.total();
      }
      dweight[c] = static_cast<T>(sum_x);
      dbias[c] = static_cast<T>(sum);
      const T a = static_cast<T>(sum / count), k = static_cast<T>(sum_x / count);
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t at = (b * channels + c) * size;
#pragma omp simd
        for (int64_t j = at; j < at + size; ++j) dx[j] = scale * (dy[j] - a - (x[j] - m) * r * k);
      }
    });
  });
}

template void channel_statistics(const float*, float*, float*, int64_t, int64_t, int64_t);
template void channel_statistics(const double*, double*, double*, int64_t, int64_t, int64_t);
template void batch_norm(const float*, const float*, const float*, const float*, const float*,
                         float*, int64_t, int64_t, int64_t);
template void batch_norm(const double*, const double*, const double*, const double*, const double*,
                         double*, int64_t, int64_t, int64_t);
template void batch_norm_backward(const float*, const float*, const float*, const float*,
                                  const float*, float*, float*, float*, int64_t, int64_t, int64_t);
template void batch_norm_backward(const double*, const double*, const double*, const double*,
                                  const double*, double*, double*, double*, int64_t, int64_t,
                                  int64_t);

}  // namespace tern::kernels
