// Fills new memory: ranges, identity, one-hot rows, triangles, random integers and permutations.
#include "tern/core/kernels/creation/create.h"

#include <algorithm>
#include <numeric>

#include "tern/core/base/threads.h"
#include "tern/core/kernels/creation/copy.h"
#include "tern/core/kernels/elementwise/arithmetic.h"

namespace tern::kernels {

template <class T>
void arange(T* x, int64_t n, Wide<T> start, Wide<T> step) {
  parallel_for(n, kGrain, [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      x[i] = static_cast<T>(Add()(start, Multiply()(static_cast<Wide<T>>(i), step)));
  });
}

template <class T>
void linspace(T* x, int64_t n, double start, double end) {
  double step = n > 1 ? (end - start) / static_cast<double>(n - 1) : 0;
  for (int64_t i = 0; i < n; ++i) {
    double v = i < (n + 1) / 2 ? start + step * static_cast<double>(i)
                               : end - step * static_cast<double>(n - 1 - i);
    x[i] = convert<T>(v);
  }
}

template <class T>
void eye(T* x, int64_t rows, int64_t cols) {
  std::fill_n(x, rows * cols, T{0});
  for (int64_t i = 0; i < std::min(rows, cols); ++i) x[i * cols + i] = T{1};
}

template <class T>
void one_hot(T* x, const int64_t* index, int64_t n, int64_t classes) {
  std::fill_n(x, n * classes, T{0});
  for (int64_t i = 0; i < n; ++i) x[i * classes + index[i]] = T{1};
}

void triangle(uint8_t* x, int64_t rows, int64_t cols, int64_t diagonal, bool lower) {
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) *x++ = lower ? c - r <= diagonal : c - r >= diagonal;
}

int64_t find_outside(const int64_t* index, int64_t n, int64_t size) {
  return std::find_if(index, index + n, [=](int64_t i) { return i < 0 || i >= size; }) - index;
}

void random_integers(int64_t* x, int64_t n, int64_t low, int64_t high, Rng& rng) {
  for (int64_t i = 0; i < n; ++i) x[i] = low + rng.below(high - low);
}

void random_permutation(int64_t* x, int64_t n, Rng& rng) {
  std::iota(x, x + n, int64_t{0});
  for (int64_t i = n - 1; i > 0; --i) std::swap(x[i], x[rng.below(i + 1)]);
}

template void arange(float*, int64_t, double, double);
template void arange(double*, int64_t, double, double);
template void arange(int64_t*, int64_t, int64_t, int64_t);
template void arange(uint8_t*, int64_t, int64_t, int64_t);
template void linspace(float*, int64_t, double, double);
template void linspace(double*, int64_t, double, double);
template void linspace(int64_t*, int64_t, double, double);
template void linspace(uint8_t*, int64_t, double, double);
template void eye(float*, int64_t, int64_t);
template void eye(double*, int64_t, int64_t);
template void eye(int64_t*, int64_t, int64_t);
template void eye(uint8_t*, int64_t, int64_t);
template void one_hot(float*, const int64_t*, int64_t, int64_t);
template void one_hot(double*, const int64_t*, int64_t, int64_t);
template void one_hot(int64_t*, const int64_t*, int64_t, int64_t);
template void one_hot(uint8_t*, const int64_t*, int64_t, int64_t);

}  // namespace tern::kernels
