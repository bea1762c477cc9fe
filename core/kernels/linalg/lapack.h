// LAPACK for float and double, with its names and conventions: matrices are column-major, and
// functions return `info` (0: done; i > 0: failed at i). Working memory is allocated here.
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
/// Replaces a, factored by getrf, by its inverse.
template <class T>
int getri(int n, T* a, const int* pivots);
/// Replaces b (n, k) by a^-1 b, for a factored by getrf.
template <class T>
int getrs(int n, int k, const T* a, const int* pivots, T* b);
/// Replaces one triangle of a by its Cholesky factor.
template <class T>
int potrf(bool upper, int n, T* a);
/// a (m, n) = Q R: R in the upper triangle, Q as reflectors below and in tau (min(m, n)).
template <class T>
int geqrf(int m, int n, T* a, T* tau);
/// The first n columns of Q from k reflectors: a (m, n).
template <class T>
int orgqr(int m, int n, int k, T* a, const T* tau);
/// a (m, n) = u s vt; a is overwritten. job: 'A' all of u (m, m) and vt (n, n), 'S' the first
/// min(m, n) columns or rows, 'N' no vectors.
template <class T>
int gesdd(char job, int m, int n, T* a, T* s, T* u, int ldu, T* vt, int ldvt);
/// The eigenvalues w of symmetric a, ascending. Reads one triangle. Replaces a by the eigenvectors
/// if `vectors`.
template <class T>
int syevd(bool vectors, bool upper, int n, T* a, T* w);
/// b (max(m, n), k) has m rows and is replaced by the shortest x (n, k) that minimises |a x - b|. a
/// (m, n) is overwritten. Singular values below rcond times the largest count as 0.
template <class T>
int gelsy(int m, int n, int k, T* a, T* b, T rcond, int* rank);
/// Replaces b (n, k) by a^-1 b for a triangular a (n, n); both are row-major.
template <class T>
void trsm(bool upper, bool unit, int n, int k, const T* a, T* b);

/// The first matrix of a batch that failed, and its info.
struct Failure {
  int64_t matrix = -1;
  int info = 0;
};

/// info = fn(matrix) for every matrix of a batch, in parallel if `work` (in multiplications)
/// justifies it. LAPACK itself runs on one thread, so results do not depend on the number of
/// threads.
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
