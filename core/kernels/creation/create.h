// Fills fresh contiguous memory. Inside of core only.
#pragma once

#include <cstdint>
#include <type_traits>

#include "tern/core/base/rng.h"

namespace tern::kernels {

/// The type in which arange counts: f64 for floats, i64 for integers.
template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, int64_t>;

/// x[i] = start + i * step.
template <class T>
void arange(T* x, int64_t n, Wide<T> start, Wide<T> step);

/// n numbers from start to end inclusive. Counts from the nearer end, so that the last one is
/// exact.
template <class T>
void linspace(T* x, int64_t n, double start, double end);

/// x (rows, cols) = 1 on the diagonal, else 0.
template <class T>
void eye(T* x, int64_t rows, int64_t cols);

/// x (n, classes) = 1 at index[i] in row i, else 0. REQUIRES: indices were checked.
template <class T>
void one_hot(T* x, const int64_t* index, int64_t n, int64_t classes);

/// x (rows, cols) = 1 where col - row <= diagonal (lower) or >= diagonal (upper), else 0.
void triangle(uint8_t* x, int64_t rows, int64_t cols, int64_t diagonal, bool lower);

/// The position of the first index outside [0, size); n if there is none.
int64_t find_outside(const int64_t* index, int64_t n, int64_t size);

/// n uniform integers in [low, high), and the numbers 0 to n - 1 in random order (the Fisher-Yates
/// shuffle).
void random_integers(int64_t* x, int64_t n, int64_t low, int64_t high, Rng& rng);
void random_permutation(int64_t* x, int64_t n, Rng& rng);

}  // namespace tern::kernels
