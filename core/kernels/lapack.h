// LAPACK for float and double, with its names and its conventions: matrices lie by columns, what
// comes back is its `info` (0: done; i > 0: failed at i). Working memory is taken care of here.
// REQUIRES: a BlasScope is held. Inside of core only.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/core/base/cpu.h"
#include "tern/core/base/threads.h"

namespace tern::kernels::lapack {

/// a (m, n) = P L U; pivots (min(m, n)) count from 1.
template <class T>
int getrf(int m, int n, T* a, int* pivots);
/// a, factored by getrf, becomes its inverse.
template <class T>
int getri(int n, T* a, const int* pivots);
/// b (n, k) becomes a^-1 b, a factored by getrf.
template <class T>
int getrs(int n, int k, const T* a, const int* pivots, T* b);
/// One triangle of a becomes its Cholesky factor.
template <class T>
int potrf(bool upper, int n, T* a);
/// a (m, n) = Q R: R in the upper triangle, Q as reflectors below and in tau (min(m, n)).
template <class T>
int geqrf(int m, int n, T* a, T* tau);
/// The first n columns of Q out of k reflectors: a (m, n).
template <class T>
int orgqr(int m, int n, int k, T* a, const T* tau);
/// a (m, n) = u s vt, a is destroyed. job: 'A' all of u (m, m) and vt (n, n), 'S' the first
/// min(m, n), 'N' no vectors.
template <class T>
int gesdd(char job, int m, int n, T* a, T* s, T* u, int ldu, T* vt, int ldvt);
/// The eigenvalues w, ascending, of the symmetric a, of which one triangle is read; a becomes the
/// eigenvectors if they are wanted.
template <class T>
int syevd(bool vectors, bool upper, int n, T* a, T* w);
/// b (max(m, n), k) holds m rows and becomes the shortest x (n, k) with the least |a x - b|; a (m,
/// n) is destroyed. Singular values below rcond times the largest count as 0.
template <class T>
int gelsy(int m, int n, int k, T* a, T* b, T rcond, int* rank);
/// b (n, k), by rows, becomes a^-1 b for a triangle a (n, n), by rows.
template <class T>
void trsm(bool upper, bool unit, int n, int k, const T* a, T* b);

/// The first matrix of a batch that fails, and how.
struct Failure {
  int64_t matrix = -1;
  int info = 0;
};

/// info = fn(matrix) for every matrix of a batch, in parallel where the work, counted in
/// multiplications, is worth it. LAPACK itself keeps to one thread: results depend on none.
template <class Fn>
Failure for_each_matrix(int64_t batch, int64_t work, Fn fn) {
  std::vector<int> infos(static_cast<size_t>(batch));
  BlasScope blas;
  parallel_blocks(batch, work, [&](int64_t i) { infos[static_cast<size_t>(i)] = fn(i); });
  for (int64_t i = 0; i < batch; ++i)
    if (int info = infos[static_cast<size_t>(i)]) return {i, info};
  return {};
}

}  // namespace tern::kernels::lapack
