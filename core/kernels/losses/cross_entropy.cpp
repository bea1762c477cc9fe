// Cross entropy of rows and its gradient, for class indices or probabilities, with label smoothing.
#include "tern/core/kernels/losses/cross_entropy.h"

#include <algorithm>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/base/vmath.h"

namespace tern::kernels {
namespace {

constexpr int64_t kCrossEntropyGrain = 1 << 12;  // elements per thread, at least

template <class T>
[[gnu::always_inline]] inline double exp_sum(const T* x, int64_t n, T max) {
  return blocked_sum<T>(n, [=](int64_t c) { return vmath::exp(x[c] - max); });
}

// sum_c weight_c (log_sum - (x_c - max)). Classes with weight 0 do not count, even if their logit
// is infinite.
template <class T>
[[gnu::always_inline]] inline double uniform_loss(const T* x, const T* weight, int64_t n, T max,
                                                  double log_sum) {
  return lane_sum<double>(n, [=](int64_t c) {
    const double term =
        static_cast<double>(weight[c]) * (log_sum - static_cast<double>(x[c] - max));
    return weight[c] == 0 ? 0 : term;
  });
}

// The same with q as weight. Classes with q = 0 do not count, even if their logit is infinite.
template <class T>
[[gnu::always_inline]] inline double soft_loss(const T* x, const T* t, const T* weight, int64_t n,
                                               T max, double log_sum, double keep, double uniform) {
  return lane_sum<double>(n, [=](int64_t c) {
    const double q = static_cast<double>(weight[c]) * (keep * static_cast<double>(t[c]) + uniform);
    const double term = q * (log_sum - static_cast<double>(x[c] - max));
    return q == 0 ? 0 : term;
  });
}

template <class T>
[[gnu::always_inline]] inline double soft_sum(const T* t, const T* weight, int64_t n, double keep,
                                              double uniform) {
  return lane_sum<double>(n, [=](int64_t c) {
    return static_cast<double>(weight[c]) * (keep * static_cast<double>(t[c]) + uniform);
  });
}

int64_t row_grain(int64_t n) {
  return std::max<int64_t>(1, kCrossEntropyGrain / std::max<int64_t>(n, 1));
}

}  // namespace

template <class T>
void cross_entropy(const T* x, const Targets<T>& targets, T* loss, T* max, T* sum, int64_t rows,
                   int64_t n) {
  const double keep = 1 - targets.smoothing, uniform = targets.smoothing / static_cast<double>(n);
  parallel_for(rows, row_grain(n), [=](int64_t begin, int64_t end) {
    simd([=] {
      for (int64_t i = begin; i < end; ++i) {
        const T* row = x + i * n;
        const int64_t t = targets.index ? targets.index[i] : 0;
        if (targets.index && t == targets.ignore) {
          loss[i] = max[i] = 0;
          sum[i] = 1;
          continue;
        }
        const T m = max_of(row, n);
        const double s = exp_sum(row, n, m), log_sum = vmath::log(s);
        double l = 0;
        if (!targets.index) {
          l = soft_loss(row, targets.probability + i * n, targets.weight, n, m, log_sum, keep,
                        uniform);
        } else {
          const double q = keep * static_cast<double>(targets.weight[t]);
          if (q != 0) l = q * (log_sum - static_cast<double>(row[t] - m));
          if (uniform != 0) l += uniform * uniform_loss(row, targets.weight, n, m, log_sum);
        }
        loss[i] = static_cast<T>(l);
        max[i] = m;
        sum[i] = static_cast<T>(s);
      }
    });
  });
}

template <class T>
void cross_entropy_backward(const T* dloss, const T* x, const Targets<T>& targets, const T* max,
                            const T* sum, T* dx, int64_t rows, int64_t n) {
  const double keep = 1 - targets.smoothing, uniform = targets.smoothing / static_cast<double>(n);
  const T* weight = targets.weight;
  const double weights = uniform == 0 ? 0 : uniform * sum_of<double>(weight, n);
  parallel_for(rows, row_grain(n), [=](int64_t begin, int64_t end) {
    simd([=] {
      for (int64_t i = begin; i < end; ++i) {
        const T *row = x + i * n, m = max[i], g = dloss[i];
        T* out = dx + i * n;
        if (!targets.index) {
          const T* t = targets.probability + i * n;
          const T scale = static_cast<T>(soft_sum(t, weight, n, keep, uniform)) * g / sum[i];
          const T a = static_cast<T>(keep) * g, b = static_cast<T>(uniform) * g;
#pragma omp simd
          for (int64_t c = 0; c < n; ++c)
            out[c] = scale * vmath::exp(row[c] - m) - weight[c] * (a * t[c] + b);
          continue;
        }
        const int64_t t = targets.index[i];
        if (t == targets.ignore) {
          std::fill(out, out + n, T(0));
          continue;
        }
        const double kept = keep * static_cast<double>(weight[t]);
        const T scale = static_cast<T>(kept + weights) * g / sum[i];
        const T b = static_cast<T>(uniform) * g;
#pragma omp simd
        for (int64_t c = 0; c < n; ++c) out[c] = scale * vmath::exp(row[c] - m) - b * weight[c];
        out[t] -= static_cast<T>(kept) * g;
      }
    });
  });
}

int64_t first_outside(const int64_t* index, int64_t rows, int64_t classes, int64_t ignore) {
  for (int64_t i = 0; i < rows; ++i)
    if (index[i] != ignore && (index[i] < 0 || index[i] >= classes)) return i;
  return -1;
}

template <class T>
double weight_of(const int64_t* index, const T* weight, int64_t rows, int64_t ignore) {
  double s = 0;
  for (int64_t i = 0; i < rows; ++i)
    if (index[i] != ignore) s += static_cast<double>(weight[index[i]]);
  return s;
}

template void cross_entropy(const float*, const Targets<float>&, float*, float*, float*, int64_t,
                            int64_t);
template void cross_entropy(const double*, const Targets<double>&, double*, double*, double*,
                            int64_t, int64_t);
template void cross_entropy_backward(const float*, const float*, const Targets<float>&,
                                     const float*, const float*, float*, int64_t, int64_t);
template void cross_entropy_backward(const double*, const double*, const Targets<double>&,
                                     const double*, const double*, double*, int64_t, int64_t);
template double weight_of(const int64_t*, const float*, int64_t, int64_t);
template double weight_of(const int64_t*, const double*, int64_t, int64_t);

}  // namespace tern::kernels
