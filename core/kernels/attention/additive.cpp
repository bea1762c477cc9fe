// Scores of additive attention and their gradients, query by query. Each example sums its part of
// dw on its own; the parts are added in order.
#include "tern/core/kernels/attention/additive.h"

#include <algorithm>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/base/vmath.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

// For one query and one key: adds d to dq and dk, and ds t to dw.
template <class T>
[[gnu::always_inline]] inline void gradient_row(const T* q, const T* k, const T* w, T ds, T* dq,
                                                T* dk, T* dw, int64_t n) {
#pragma omp simd
  for (int64_t h = 0; h < n; ++h) {
    const T t = vmath::tanh(q[h] + k[h]);
    const T d = ds * w[h] * (T(1) - t * t);
    dq[h] += d;
    dk[h] += d;
    dw[h] += ds * t;
  }
}

}  // namespace

template <class T>
void additive_scores(const AdditiveSize& size, const T* q, const T* k, const T* w, T* scores) {
  const int64_t n = size.hidden, keys = size.keys, queries = size.queries;
  const int64_t grain = std::max<int64_t>(1, (1 << 10) / std::max<int64_t>(n * keys, 1));
  parallel_for(size.batch * queries, grain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T *query = q + i * n, *key = k + i / queries * keys * n;
      T* to = scores + i * keys;
      simd([=] {
        for (int64_t j = 0; j < keys; ++j) {
          const T* row = key + j * n;
          to[j] = lane_sum<T>(n, [=](int64_t h) { return w[h] * vmath::tanh(query[h] + row[h]); });
        }
      });
    }
  });
}

template <class T>
void additive_gradients(const AdditiveSize& size, const T* q, const T* k, const T* w, const T* ds,
                        T* dq, T* dk, T* dw) {
  const int64_t n = size.hidden, keys = size.keys, queries = size.queries;
  Scratch<T> shares(size.batch * n);  // partial sums of dw
  parallel_for(size.batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      T* share = shares.data() + b * n;
      std::fill_n(share, n, T(0));
      std::fill_n(dq + b * queries * n, queries * n, T(0));
      for (int64_t i = b * queries; i < (b + 1) * queries; ++i) {
        const T *query = q + i * n, *key = k + b * keys * n, *d = ds + i * keys;
        T *to_q = dq + i * n, *to_k = dk + b * keys * n;
        simd([=] {
          for (int64_t j = 0; j < keys; ++j)
            gradient_row(query, key + j * n, w, d[j], to_q, to_k + j * n, share, n);
        });
      }
    }
  });
  std::fill_n(dw, n, T(0));
  for (int64_t b = 0; b < size.batch; ++b) {
    const T* share = shares.data() + b * n;
    simd([=] {
#pragma omp simd
      for (int64_t h = 0; h < n; ++h) dw[h] += share[h];
    });
  }
}

template void additive_scores(const AdditiveSize&, const float*, const float*, const float*,
                              float*);
template void additive_scores(const AdditiveSize&, const double*, const double*, const double*,
                              double*);
template void additive_gradients(const AdditiveSize&, const float*, const float*, const float*,
                                 const float*, float*, float*, float*);
template void additive_gradients(const AdditiveSize&, const double*, const double*, const double*,
                                 const double*, double*, double*, double*);

}  // namespace tern::kernels
