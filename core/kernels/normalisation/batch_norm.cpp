// Batch norm and its gradient: two sums per channel in double, then one pass that writes. With few
// channels, images are divided among threads too, and their sums are added in order.
#include <algorithm>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/normalisation/normalise.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

/// Two sums over elements of a channel.
struct Sums {
  double first, second;
};

/// Calls sums(channel, first image, last image) and finish(channel, its Sums), then write(channel,
/// first image, last image), in parallel over the channels. With few channels the images are
/// divided too. The division depends only on the shape, and the sums are added in order.
template <class AddUp, class Finish, class Write>
void each_channel(int64_t batch, int64_t channels, int64_t size, AddUp sums, Finish finish,
                  Write write) {
  constexpr int64_t kTasks = 64, kWork = 1 << 14;  // number of tasks; elements per thread, at least
  const int64_t parts =
      std::clamp<int64_t>(kTasks / std::max<int64_t>(channels, 1), 1, std::max<int64_t>(batch, 1));
  const int64_t elements = std::max<int64_t>(ceil_div(batch, parts) * size, 1);
  auto each_task = [=](auto body) {
    parallel_for(channels * parts, std::max<int64_t>(1, kWork / elements),
                 [=](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t part = i % parts;
                     body(i, i / parts, part * batch / parts, (part + 1) * batch / parts);
                   }
                 });
  };
  if (parts == 1) {  // a channel is written while it is in the cache
    each_task([=](int64_t, int64_t c, int64_t first, int64_t last) {
      finish(c, sums(c, first, last));
      write(c, first, last);
    });
    return;
  }
  Scratch<Sums> partial(channels * parts);
  Sums* of = partial.data();
  each_task(
      [=](int64_t i, int64_t c, int64_t first, int64_t last) { of[i] = sums(c, first, last); });
  parallel_for(channels, kWork, [=](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      Sums total{0, 0};
      for (int64_t part = 0; part < parts; ++part) {
        total.first += of[c * parts + part].first;
        total.second += of[c * parts + part].second;
      }
      finish(c, total);
    }
  });
  each_task([=](int64_t, int64_t c, int64_t first, int64_t last) { write(c, first, last); });
}

}  // namespace

// Sums of x - x[0] and of its square give the variance in one pass. x[0] differs from the mean by
// at most sqrt(n) standard deviations, so the cancellation error in double is far below the result.
template <class T>
void batch_norm(const T* x, const T* weight, const T* bias, double eps, T* y, T* mean, T* var,
                T* rstd, int64_t batch, int64_t channels, int64_t size) {
  const double count = static_cast<double>(batch * size);
  auto centre = [=](int64_t c) {
    const double first = count > 0 ? static_cast<double>(x[c * size]) : 0;
    return __builtin_isfinite(first) ? first : 0;
  };
  auto sums = [=](int64_t c, int64_t first, int64_t last) {
    return simd([=, from = centre(c)] {
      LaneSum<double> sum, squares;
      for (int64_t b = first; b < last; ++b)
        each_lane(size, [=, &sum, &squares, run = x + (b * channels + c) * size](int64_t j, int l) {
          const double d = static_cast<double>(run[j]) - from;
          sum.lane[l] += d;
          squares.lane[l] += d * d;
        });
      return Sums{sum.total(), squares.total()};
    });
  };
  auto finish = [=](int64_t c, Sums s) {
    const double off = s.first / count, v = s.second / count - off * off;
    const double positive = v < 0 ? 0 : v;  // NaN stays
    mean[c] = static_cast<T>(centre(c) + off);
    var[c] = static_cast<T>(positive);
    rstd[c] = static_cast<T>(1 / __builtin_sqrt(positive + eps));
  };
  auto write = [=](int64_t c, int64_t first, int64_t last) {
    simd([=, m = mean[c], scale = rstd[c] * weight[c], shift = bias[c]] {
      for (int64_t b = first; b < last; ++b) {
        const int64_t at = (b * channels + c) * size;
#pragma omp simd
        for (int64_t j = at; j < at + size; ++j) y[j] = (x[j] - m) * scale + shift;
      }
    });
  };
  each_channel(batch, channels, size, sums, finish, write);
}

template <class T>
void batch_norm_backward(const T* dy, const T* x, const T* weight, const T* mean, const T* rstd,
                         T* dx, T* dweight, T* dbias, int64_t batch, int64_t channels,
                         int64_t size) {
  const double count = static_cast<double>(batch * size);
  Scratch<Sums> totals(channels);
  auto sums = [=](int64_t c, int64_t first, int64_t last) {
    return simd([=, m = mean[c], r = rstd[c]] {
      LaneSum<double> s, t;
      for (int64_t b = first; b < last; ++b) {
        const int64_t at = (b * channels + c) * size;
        each_lane(size, [=, &s, &t, d = dy + at, x = x + at](int64_t j, int l) {
          s.lane[l] += static_cast<double>(d[j]);
          t.lane[l] += static_cast<double>(d[j] * ((x[j] - m) * r));
        });
      }
      return Sums{s.total(), t.total()};
    });
  };
  auto finish = [=, of = totals.data()](int64_t c, Sums s) {
    dbias[c] = static_cast<T>(s.first);
    dweight[c] = static_cast<T>(s.second);
    of[c] = {s.first / count, s.second / count};
  };
  auto write = [=, of = totals.data()](int64_t c, int64_t first, int64_t last) {
    const T a = static_cast<T>(of[c].first), k = static_cast<T>(of[c].second);
    simd([=, m = mean[c], r = rstd[c], scale = rstd[c] * weight[c]] {
      for (int64_t b = first; b < last; ++b) {
        const int64_t at = (b * channels + c) * size;
#pragma omp simd
        for (int64_t j = at; j < at + size; ++j) dx[j] = scale * (dy[j] - a - (x[j] - m) * r * k);
      }
    });
  };
  each_channel(batch, channels, size, sums, finish, write);
}

template void batch_norm(const float*, const float*, const float*, double, float*, float*, float*,
                         float*, int64_t, int64_t, int64_t);
template void batch_norm(const double*, const double*, const double*, double, double*, double*,
                         double*, double*, int64_t, int64_t, int64_t);
template void batch_norm_backward(const float*, const float*, const float*, const float*,
                                  const float*, float*, float*, float*, int64_t, int64_t, int64_t);
template void batch_norm_backward(const double*, const double*, const double*, const double*,
                                  const double*, double*, double*, double*, int64_t, int64_t,
                                  int64_t);

}  // namespace tern::kernels
