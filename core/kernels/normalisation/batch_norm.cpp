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

struct Sizes {
  int64_t batch, channels, size;  // size: elements of a channel in an image
};

constexpr int64_t kStrip = 16;  // channels that are computed side by side if they are neighbours

/// Adds terms(c)(i), a Sums, over the elements i of channel c in images [first, last).
template <class Terms>
Sums add_up(Sizes n, int64_t c, int64_t first, int64_t last, Terms terms) {
  return simd([=, term = terms(c)] {
    LaneSum<double> s, t;
    for (int64_t b = first; b < last; ++b)
      each_lane(n.size, [=, &s, &t, at = (b * n.channels + c) * n.size](int64_t j, int l) {
        const Sums x = term(at + j);
        s.lane[l] += x.first;
        t.lane[l] += x.second;
      });
    return Sums{s.total(), t.total()};
  });
}

/// The same for `count` channels from c on that have one element each in an image. Gives the same
/// bits: every element is added to the first lane.
template <class Terms>
void add_up_strip(Sizes n, int64_t c, int64_t count, int64_t first, int64_t last, Terms terms,
                  Sums* to) {
  simd([=] {
    double s[kStrip] = {}, t[kStrip] = {};
    for (int64_t at = first * n.channels + c; at < last * n.channels + c; at += n.channels) {
#pragma omp simd
      for (int64_t w = 0; w < count; ++w) {
        const Sums x = terms(c + w)(at + w);
        s[w] += x.first;
        t[w] += x.second;
      }
    }
    for (int64_t w = 0; w < count; ++w) to[w] = {s[w], t[w]};
  });
}

/// Calls write(c)(i) for the elements i of `count` channels from c on, in images [first, last).
template <class Write>
void write_strip(Sizes n, int64_t c, int64_t count, int64_t first, int64_t last, Write write) {
  simd([=] {
    for (int64_t b = first; b < last; ++b) {
      const int64_t at = (b * n.channels + c) * n.size;
      if (n.size == 1) {
#pragma omp simd
        for (int64_t w = 0; w < count; ++w) write(c + w)(at + w);
        continue;
      }
      const auto one = write(c);
#pragma omp simd
      for (int64_t i = at; i < at + n.size; ++i) one(i);
    }
  });
}

/// Adds up the terms of each channel, calls finish(channel, its Sums), then writes all elements, in
/// parallel over the channels. With few channels the images are divided too. The division depends
/// only on the shape, and the sums are added in order.
template <class Terms, class Finish, class Write>
void each_channel(Sizes n, Terms terms, Finish finish, Write write) {
  constexpr int64_t kTasks = 64, kWork = 1 << 14;  // number of tasks; elements per thread, at least
  const int64_t strip = n.size == 1 ? kStrip : 1, strips = ceil_div(n.channels, strip);
  const int64_t parts =
      std::clamp<int64_t>(kTasks / std::max<int64_t>(strips, 1), 1, std::max<int64_t>(n.batch, 1));
  const int64_t elements = std::max<int64_t>(ceil_div(n.batch, parts) * n.size * strip, 1);
  auto each_task = [=](auto body) {
    parallel_for(strips * parts, std::max<int64_t>(1, kWork / elements),
                 [=](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) {
                     const int64_t part = i % parts, c = i / parts * strip;
                     body(part, c, std::min(strip, n.channels - c), part * n.batch / parts,
                          (part + 1) * n.batch / parts);
                   }
                 });
  };
  auto sums = [=](int64_t c, int64_t count, int64_t first, int64_t last, Sums* to) {
    if (n.size == 1)
      add_up_strip(n, c, count, first, last, terms, to);
    else
      *to = add_up(n, c, first, last, terms);
  };
  auto write_all = [=](int64_t, int64_t c, int64_t count, int64_t first, int64_t last) {
    write_strip(n, c, count, first, last, write);
  };
  if (parts == 1) {  // channels are written while they are in the cache
    each_task([=](int64_t part, int64_t c, int64_t count, int64_t first, int64_t last) {
      Sums of[kStrip];
      sums(c, count, first, last, of);
      for (int64_t w = 0; w < count; ++w) finish(c + w, of[w]);
      write_all(part, c, count, first, last);
    });
    return;
  }
  Scratch<Sums> partial(parts * n.channels);
  Sums* of = partial.data();
  each_task([=](int64_t part, int64_t c, int64_t count, int64_t first, int64_t last) {
    sums(c, count, first, last, of + part * n.channels + c);
  });
  parallel_for(n.channels, kWork, [=](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      Sums total{0, 0};
      for (int64_t part = 0; part < parts; ++part) {
        total.first += of[part * n.channels + c].first;
        total.second += of[part * n.channels + c].second;
      }
      finish(c, total);
    }
  });
  each_task(write_all);
}

}  // namespace

// Sums of x - x[0] and of its square give the variance in one pass. x[0] differs from the mean by
// at most sqrt(n) standard deviations, so the cancellation error in double is far below the result.
template <class T>
void batch_norm(const T* x, const T* weight, const T* bias, double eps, T* y, T* mean, T* var,
                T* rstd, int64_t batch, int64_t channels, int64_t size) {
  const double count = static_cast<double>(batch * size);
  for (int64_t c = 0; c < channels; ++c)  // x[0], until finish() adds the rest
    mean[c] = count > 0 && __builtin_isfinite(x[c * size]) ? x[c * size] : 0;
  auto terms = [=](int64_t c) {
    return [x, from = static_cast<double>(mean[c])](int64_t i) {
      const double d = static_cast<double>(x[i]) - from;
      return Sums{d, d * d};
    };
  };
  auto finish = [=](int64_t c, Sums s) {
    const double off = s.first / count, v = s.second / count - off * off;
    const double positive = v < 0 ? 0 : v;  // NaN stays
    mean[c] = static_cast<T>(static_cast<double>(mean[c]) + off);
    var[c] = static_cast<T>(positive);
    rstd[c] = static_cast<T>(1 / __builtin_sqrt(positive + eps));
  };
  auto write = [=](int64_t c) {
    return [x, y, m = mean[c], scale = rstd[c] * weight[c], shift = bias[c]](int64_t i) {
      y[i] = (x[i] - m) * scale + shift;
    };
  };
  each_channel({batch, channels, size}, terms, finish, write);
}

template <class T>
void batch_norm_backward(const T* dy, const T* x, const T* weight, const T* mean, const T* rstd,
                         T* dx, T* dweight, T* dbias, int64_t batch, int64_t channels,
                         int64_t size) {
  const double count = static_cast<double>(batch * size);
  Scratch<Sums> totals(channels);
  auto terms = [=](int64_t c) {
    return [dy, x, m = mean[c], r = rstd[c]](int64_t i) {
      return Sums{static_cast<double>(dy[i]), static_cast<double>(dy[i] * ((x[i] - m) * r))};
    };
  };
  auto finish = [=, of = totals.data()](int64_t c, Sums s) {
    dbias[c] = static_cast<T>(s.first);
    dweight[c] = static_cast<T>(s.second);
    of[c] = {s.first / count, s.second / count};
  };
  auto write = [=, of = totals.data()](int64_t c) {
    const T a = static_cast<T>(of[c].first), k = static_cast<T>(of[c].second);
    return [dy, x, dx, a, k, m = mean[c], r = rstd[c], scale = rstd[c] * weight[c]](int64_t i) {
      dx[i] = scale * (dy[i] - a - (x[i] - m) * r * k);
    };
  };
  each_channel({batch, channels, size}, terms, finish, write);
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
