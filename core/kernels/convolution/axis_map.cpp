// Applies a sparse linear map along one axis, in three forms: by rows if inner > 1; by gathers if
// all outputs have similar numbers of terms; else by lists of terms.
#include "tern/core/kernels/convolution/axis_map.h"

#include <algorithm>

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"

namespace tern::kernels {
namespace {

constexpr int64_t kShare = 16384;  // elements per thread, at least
constexpr int64_t kMostWaste = 4;  // terms that columns may compute per useful term

/// y = sum of weight * row of x, for rows of n elements, two terms per pass.
template <class T>
[[gnu::always_inline]] inline void sum_rows(const int64_t* index, const double* weight,
                                            int64_t terms, const T* x, int64_t n, T* y) {
  if (terms == 0) {
    for (int64_t j = 0; j < n; ++j) y[j] = T(0);
    return;
  }
  int64_t k = terms % 2;
  if (k == 1) {
    const T* a = x + index[0] * n;
    const T p = static_cast<T>(weight[0]);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = p * a[j];
  } else {
    const T *a = x + index[0] * n, *b = x + index[1] * n;
    const T p = static_cast<T>(weight[0]), q = static_cast<T>(weight[1]);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] = p * a[j] + q * b[j];
    k = 2;
  }
  for (; k < terms; k += 2) {
    const T *a = x + index[k] * n, *b = x + index[k + 1] * n;
    const T p = static_cast<T>(weight[k]), q = static_cast<T>(weight[k + 1]);
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) y[j] += p * a[j] + q * b[j];
  }
}

/// For inner > 1: vectors run along the rows of `inner` elements.
template <class T>
void map_rows(const AxisMap& map, int64_t outer, int64_t inner, const T* x, T* y) {
  const int64_t out = map.out(), terms = std::ssize(map.index) / std::max<int64_t>(out, 1) + 1;
  parallel_for(outer * out, 1 + kShare / (inner * terms + 1), [&](int64_t first, int64_t last) {
    simd([=, in = map.in, starts = map.starts.data(), index = map.index.data(),
          weight = map.weight.data()] {
      for (int64_t r = first; r < last; ++r) {
        const int64_t i = r % out, at = starts[i];
        sum_rows(index + at, weight + at, starts[i + 1] - at, x + r / out * in * inner, inner,
                 y + r * inner);
      }
    });
  });
}

/// The terms of all outputs in columns: term k of output i is at k * out + i. Missing terms read
/// element 0 with weight 0.
template <class T>
struct Columns {
  explicit Columns(const AxisMap& map) : out(map.out()) {
    for (int64_t i = 0; i < out; ++i)
      terms = std::max(terms, map.starts[static_cast<size_t>(i) + 1] - start(map, i));
    const size_t size = static_cast<size_t>(out * terms);
    if (terms * out > kMostWaste * std::ssize(map.index)) return;
    dense = true;
    index.resize(size);
    weight.resize(size);
    for (int64_t i = 0; i < out; ++i)
      for (int64_t at = start(map, i), k = 0; at < start(map, i + 1); ++at, ++k) {
        index[static_cast<size_t>(k * out + i)] = map.index[static_cast<size_t>(at)];
        weight[static_cast<size_t>(k * out + i)] =
            static_cast<T>(map.weight[static_cast<size_t>(at)]);
      }
  }
  static int64_t start(const AxisMap& map, int64_t i) { return map.starts[static_cast<size_t>(i)]; }

  int64_t out, terms = 0;
  bool dense = false;
  std::vector<int64_t> index;
  std::vector<T> weight;
};

/// For inner = 1: vectors gather the elements that the outputs read.
template <class T>
void map_elements(const AxisMap& map, const Columns<T>& c, int64_t outer, const T* x, T* y) {
  parallel_for(outer, 1 + kShare / (c.out * c.terms + 1), [&](int64_t first, int64_t last) {
    simd([=, in = map.in, out = c.out, terms = c.terms, index = c.index.data(),
          weight = c.weight.data()] {
      for (int64_t r = first; r < last; ++r) {
        const T* row = x + r * in;
        T* to = y + r * out;
        for (int64_t i = 0; i < out; ++i) to[i] = T(0);
        for (int64_t k = 0; k < terms; ++k) {
          const int64_t* from = index + k * out;
          const T* w = weight + k * out;
#pragma omp simd
          for (int64_t i = 0; i < out; ++i) {
            const T v = row[from[i]];
            to[i] += w[i] == T(0) ? T(0) : w[i] * v;
          }
        }
      }
    });
  });
}

/// For inner = 1 if a few outputs have most of the terms.
template <class T>
void map_lists(const AxisMap& map, int64_t outer, const T* x, T* y) {
  const int64_t out = map.out();
  parallel_for(outer, 1 + kShare / (std::ssize(map.index) + 1), [&](int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r)
      for (int64_t i = 0; i < out; ++i) {
        T sum = 0;
        for (auto k = static_cast<size_t>(map.starts[static_cast<size_t>(i)]);
             k < static_cast<size_t>(map.starts[static_cast<size_t>(i) + 1]); ++k)
          sum += static_cast<T>(map.weight[k]) * x[r * map.in + map.index[k]];
        y[r * out + i] = sum;
      }
  });
}

}  // namespace

AxisMap AxisMap::transposed() const {
  AxisMap t;
  t.in = out();
  t.starts.assign(static_cast<size_t>(in) + 1, 0);
  for (int64_t j : index) ++t.starts[static_cast<size_t>(j) + 1];
  for (size_t j = 0; j < static_cast<size_t>(in); ++j) t.starts[j + 1] += t.starts[j];
  t.index.resize(index.size());
  t.weight.resize(index.size());
  std::vector<int64_t> at(t.starts.begin(), t.starts.end() - 1);
  for (int64_t i = 0; i < out(); ++i)
    for (auto k = static_cast<size_t>(starts[static_cast<size_t>(i)]);
         k < static_cast<size_t>(starts[static_cast<size_t>(i) + 1]); ++k) {
      const auto to = static_cast<size_t>(at[static_cast<size_t>(index[k])]++);
      t.index[to] = i;
      t.weight[to] = weight[k];
    }
  return t;
}

template <class T>
void map_axis(const AxisMap& map, int64_t outer, int64_t inner, const T* x, T* y) {
  if (inner != 1) return map_rows(map, outer, inner, x, y);
  const Columns<T> columns(map);
  if (columns.dense) return map_elements(map, columns, outer, x, y);
  map_lists(map, outer, x, y);
}

template void map_axis(const AxisMap&, int64_t, int64_t, const float*, float*);
template void map_axis(const AxisMap&, int64_t, int64_t, const double*, double*);

}  // namespace tern::kernels
