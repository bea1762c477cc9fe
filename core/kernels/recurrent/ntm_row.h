// The code that both passes of ntm.h share, for one row: a head's addressing, with the values that
// backward needs, and writing. Each stage has its own simd(): in a single one, g++ would duplicate
// the loops for each stage that may be off, and leave some of them scalar. Inside of core only.
#pragma once

#include <algorithm>
#include <cmath>

#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/base/vmath.h"
#include "tern/core/kernels/products/matrix_vector.h"
#include "tern/core/kernels/recurrent/ntm.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels::ntm {

inline constexpr double kCosineEps = 1e-8;    // added to the product of norms
inline constexpr double kSharpenEps = 1e-30;  // added to a weight before its logarithm

/// The values of one head's addressing that backward needs, in scratch memory.
template <class T>
struct HeadTrace {
  T* cosine;   // (N)
  T* content;  // (N) softmax(beta cosine)
  T* gated;    // (S + N + S) after interpolation, wrapped around at both ends
  T* shifted;  // (N)
  T* log;      // (N) of `shifted`
  T* kernel;   // (2S + 1)
};

template <class T>
int64_t trace_size(const NtmSize& s) {
  return 5 * s.slots + 2 * s.shift + s.kernel();
}

template <class T>
HeadTrace<T> trace_at(const NtmSize& s, T* scratch) {
  const int64_t n = s.slots;
  T* rest = scratch + 4 * n;
  return {scratch, scratch + n, rest, scratch + 2 * n, scratch + 3 * n, rest + n + 2 * s.shift};
}

/// y[i] += a x[i].
template <class T>
[[gnu::always_inline]] inline void add_scaled(T a, const T* x, T* y, int64_t n) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

template <class T>
[[gnu::always_inline]] inline T dot(const T* x, const T* y, int64_t n) {
  return lane_sum<T>(n, [x, y](int64_t i) { return x[i] * y[i]; });
}

/// y[j] = rows[j] . x for rows (m, n).
template <class T>
[[gnu::always_inline]] inline void multiply_rows(const T* rows, const T* x, T* y, int64_t m,
                                                 int64_t n) {
  dot_rows(rows, n, x, m, n, [y](int64_t j, T sum) { y[j] = sum; });
}

/// y = softmax(a x) for a >= 0. Subtracts the largest x before the multiplication, so that no a is
/// too large. x and y may be the same.
template <class T>
[[gnu::always_inline]] inline void scaled_softmax(T a, const T* x, T* y, int64_t n) {
  const T top = max_of(x, n);
  const T sum = lane_sum<T>(n, [=](int64_t i) { return y[i] = vmath::exp(a * (x[i] - top)); });
  const T scale = T(1) / sum;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) y[i] *= scale;
}

/// norms[n] = |column n of memory|.
template <class T>
void column_norms(const T* memory, T* norms, int64_t m, int64_t n) {
  simd([=] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) norms[i] = 0;
    for (int64_t j = 0; j < m; ++j) {
      const T* row = memory + j * n;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) norms[i] += row[i] * row[i];
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) norms[i] = std::sqrt(norms[i]);
  });
}

/// The parameters of a head that follow its key.
template <class T>
struct HeadNumbers {
  T beta, gate, gamma;
  const T* shift;  // before its softmax
};

template <class T>
HeadNumbers<T> numbers_of(const NtmSize& s, const T* p) {
  const T* at = p + s.width;
  return {vmath::softplus(at[0]), vmath::sigmoid(at[1]), T(1) + vmath::softplus(at[2 + s.kernel()]),
          at + 2};
}

template <class T>
void match_content(const NtmSize& s, const T* key, T beta, const T* memory, const T* norms,
                   const HeadTrace<T>& t) {
  simd([=, n = s.slots, m = s.width, c = t.cosine, content = t.content] {
    const T length = std::sqrt(dot<T>(key, key, m));
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) c[i] = 0;
    for (int64_t j = 0; j < m; ++j) add_scaled<T>(key[j], memory + j * n, c, n);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) c[i] /= norms[i] * length + T(kCosineEps);
    scaled_softmax<T>(beta, c, content, n);
  });
}

/// Extends x (n), which begins at padded + shift, cyclically at both ends.
template <class T>
void wrap(T* padded, int64_t n, int64_t shift) {
  for (int64_t j = 1; j <= shift; ++j) {  // j may be larger than n
    padded[shift - j] = padded[shift - j + n * ((j + n - 1) / n)];
    padded[shift + n - 1 + j] = padded[shift + (j - 1) % n];
  }
}

/// Computes everything up to the input of sharpening, and its logarithm.
template <class T>
void trace_head(const NtmSize& s, const T* p, const T* memory, const T* norms, const T* old,
                const HeadTrace<T>& t) {
  const int64_t n = s.slots, kernel = s.kernel();
  const HeadNumbers<T> h = numbers_of(s, p);
  const T gate = !s.content ? T(0) : s.interpolation ? h.gate : T(1);
  if (s.content) match_content<T>(s, p, h.beta, memory, norms, t);
  T *gated = t.gated + s.shift, *shifted = t.shifted;
  if (s.content) {
    simd([=, content = t.content] {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) gated[i] = gate * content[i] + (T(1) - gate) * old[i];
    });
  } else {
    std::copy_n(old, n, gated);
  }
  if (s.shifting) {
    wrap(t.gated, n, s.shift);
    simd([=, weights = t.kernel, last = t.gated + 2 * s.shift] {
      scaled_softmax<T>(T(1), h.shift, weights, kernel);
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) shifted[i] = 0;
      for (int64_t j = 0; j < kernel; ++j) add_scaled<T>(weights[j], last - j, shifted, n);
    });
  } else {
    std::copy_n(gated, n, shifted);
  }
  if (s.sharpening)
    simd([=, log = t.log] {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) log[i] = vmath::log(shifted[i] + T(kSharpenEps));
    });
}

/// to = from (1 - w e^T) + w a^T. p points to e (before its sigmoid), then a (before tanh).
template <class T>
void write_memory(const NtmSize& s, const T* p, const T* w, const T* from, T* to) {
  simd([=, n = s.slots, m = s.width] {
    for (int64_t j = 0; j < m; ++j) {
      const T erase = vmath::sigmoid(p[j]), add = vmath::tanh(p[m + j]);
      const T* x = from + j * n;
      T* y = to + j * n;
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) y[i] = x[i] * (T(1) - w[i] * erase) + w[i] * add;
    }
  });
}

/// Calls fn(row, scratch) for every row, in parallel. A row reads and writes its memory about ten
/// times.
template <class T, class F>
void for_each_row(const NtmSize& s, int64_t scratch_size, F fn) {
  const int64_t work = 10 * s.slots * (s.width + 8) * (1 + s.heads());
  const int64_t grain = std::max<int64_t>(1, kParallelWork / std::max<int64_t>(work, 1));
  parallel_for(s.batch, grain, [&](int64_t begin, int64_t end) {
    Scratch<T> scratch(scratch_size);
    for (int64_t row = begin; row < end; ++row) fn(row, scratch.data());
  });
}

}  // namespace tern::kernels::ntm
