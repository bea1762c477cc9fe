// Declares the LAPACK routines of both precisions and calls the one for T, with working memory of
// the size that the routine asks for.
#include "tern/core/kernels/linalg/lapack.h"

extern "C" {  // ATLAS's header has none
#include <cblas.h>
}

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <type_traits>

#include "tern/core/base/error.h"

// LAPACK's functions. Fortran passes the length of each character after all other arguments.
extern "C" {
void sgetrf_(const int* m, const int* n, float* a, const int* lda, int* ipiv, int* info);
void dgetrf_(const int* m, const int* n, double* a, const int* lda, int* ipiv, int* info);
void sgetri_(const int* n, float* a, const int* lda, const int* ipiv, float* work, const int* lwork,
             int* info);
void dgetri_(const int* n, double* a, const int* lda, const int* ipiv, double* work,
             const int* lwork, int* info);
void sgetrs_(const char* trans, const int* n, const int* nrhs, const float* a, const int* lda,
             const int* ipiv, float* b, const int* ldb, int* info, size_t);
void dgetrs_(const char* trans, const int* n, const int* nrhs, const double* a, const int* lda,
             const int* ipiv, double* b, const int* ldb, int* info, size_t);
void spotrf_(const char* uplo, const int* n, float* a, const int* lda, int* info, size_t);
void dpotrf_(const char* uplo, const int* n, double* a, const int* lda, int* info, size_t);
void sgeqrf_(const int* m, const int* n, float* a, const int* lda, float* tau, float* work,
             const int* lwork, int* info);
void dgeqrf_(const int* m, const int* n, double* a, const int* lda, double* tau, double* work,
             const int* lwork, int* info);
void sorgqr_(const int* m, const int* n, const int* k, float* a, const int* lda, const float* tau,
             float* work, const int* lwork, int* info);
void dorgqr_(const int* m, const int* n, const int* k, double* a, const int* lda, const double* tau,
             double* work, const int* lwork, int* info);
void sgesdd_(const char* job, const int* m, const int* n, float* a, const int* lda, float* s,
             float* u, const int* ldu, float* vt, const int* ldvt, float* work, const int* lwork,
             int* iwork, int* info, size_t);
void dgesdd_(const char* job, const int* m, const int* n, double* a, const int* lda, double* s,
             double* u, const int* ldu, double* vt, const int* ldvt, double* work, const int* lwork,
             int* iwork, int* info, size_t);
void ssyevd_(const char* job, const char* uplo, const int* n, float* a, const int* lda, float* w,
             float* work, const int* lwork, int* iwork, const int* liwork, int* info, size_t,
             size_t);
void dsyevd_(const char* job, const char* uplo, const int* n, double* a, const int* lda, double* w,
             double* work, const int* lwork, int* iwork, const int* liwork, int* info, size_t,
             size_t);
void sgelsy_(const int* m, const int* n, const int* nrhs, float* a, const int* lda, float* b,
             const int* ldb, int* jpvt, const float* rcond, int* rank, float* work,
             const int* lwork, int* info);
void dgelsy_(const int* m, const int* n, const int* nrhs, double* a, const int* lda, double* b,
             const int* ldb, int* jpvt, const double* rcond, int* rank, double* work,
             const int* lwork, int* info);
}

namespace tern::kernels::lapack {
namespace {

/// Returns the routine for T.
template <class T, class Single, class Double>
auto pick(Single single, Double twofold) {
  if constexpr (std::is_same_v<T, float>)
    return single;
  else
    return twofold;
}

int leading(int rows) { return std::max(rows, 1); }

/// Calls routine(work, length) twice: first to ask for the size of its working memory.
template <class T, class Routine>
int with_work(Routine routine) {
  T best = 0;
  int info = 0;
  routine(&best, -1, &info);
  if (info != 0) return info;
  // Before version 3.12, LAPACK rounds sizes above 2^24 down to a float.
  const double size = std::nextafter(best, std::numeric_limits<T>::infinity());
  check(size < std::numeric_limits<int>::max(),
        "LAPACK needs {} numbers of working memory, more than its integers can count", size);
  std::vector<T> work(std::max<size_t>(1, static_cast<size_t>(size)));
  routine(work.data(), static_cast<int>(work.size()), &info);
  return info;
}

}  // namespace

template <class T>
int getrf(int m, int n, T* a, int* pivots) {
  int lda = leading(m), info = 0;
  pick<T>(sgetrf_, dgetrf_)(&m, &n, a, &lda, pivots, &info);
  return info;
}

template <class T>
int getri(int n, T* a, const int* pivots) {
  int lda = leading(n);
  return with_work<T>([&](T* work, int length, int* info) {
    pick<T>(sgetri_, dgetri_)(&n, a, &lda, pivots, work, &length, info);
  });
}

template <class T>
int getrs(int n, int k, const T* a, const int* pivots, T* b) {
  int lda = leading(n), info = 0;
  pick<T>(sgetrs_, dgetrs_)("N", &n, &k, a, &lda, pivots, b, &lda, &info, 1);
  return info;
}

template <class T>
int potrf(bool upper, int n, T* a) {
  int lda = leading(n), info = 0;
  pick<T>(spotrf_, dpotrf_)(upper ? "U" : "L", &n, a, &lda, &info, 1);
  return info;
}

template <class T>
int geqrf(int m, int n, T* a, T* tau) {
  int lda = leading(m);
  return with_work<T>([&](T* work, int length, int* info) {
    pick<T>(sgeqrf_, dgeqrf_)(&m, &n, a, &lda, tau, work, &length, info);
  });
}

template <class T>
int orgqr(int m, int n, int k, T* a, const T* tau) {
  int lda = leading(m);
  return with_work<T>([&](T* work, int length, int* info) {
    pick<T>(sorgqr_, dorgqr_)(&m, &n, &k, a, &lda, tau, work, &length, info);
  });
}

template <class T>
int gesdd(char job, int m, int n, T* a, T* s, T* u, int ldu, T* vt, int ldvt) {
  int lda = leading(m);
  ldu = leading(ldu);
  ldvt = leading(ldvt);
  std::vector<int> integers(static_cast<size_t>(std::max(1, 8 * std::min(m, n))));
  return with_work<T>([&](T* work, int length, int* info) {
    pick<T>(sgesdd_, dgesdd_)(&job, &m, &n, a, &lda, s, u, &ldu, vt, &ldvt, work, &length,
                              integers.data(), info, 1);
  });
}

template <class T>
int syevd(bool vectors, bool upper, int n, T* a, T* w) {
  int lda = leading(n);
  std::vector<int> integers(static_cast<size_t>(3 + 5 * int64_t{n}));
  int count = static_cast<int>(integers.size());
  return with_work<T>([&](T* work, int length, int* info) {
    pick<T>(ssyevd_, dsyevd_)(vectors ? "V" : "N", upper ? "U" : "L", &n, a, &lda, w, work, &length,
                              integers.data(), &count, info, 1, 1);
  });
}

template <class T>
int gelsy(int m, int n, int k, T* a, T* b, T rcond, int* rank) {
  int lda = leading(m), ldb = leading(std::max(m, n));
  std::vector<int> columns(static_cast<size_t>(leading(n)));  // 0: LAPACK may move the column
  return with_work<T>([&](T* work, int length, int* info) {
    pick<T>(sgelsy_, dgelsy_)(&m, &n, &k, a, &lda, b, &ldb, columns.data(), &rcond, rank, work,
                              &length, info);
  });
}

template <class T>
void trsm(bool upper, bool unit, int n, int k, const T* a, T* b) {
  pick<T>(cblas_strsm, cblas_dtrsm)(CblasRowMajor, CblasLeft, upper ? CblasUpper : CblasLower,
                                    CblasNoTrans, unit ? CblasUnit : CblasNonUnit, n, k, 1, a,
                                    leading(n), b, leading(k));
}

template int getrf(int, int, float*, int*);
template int getri(int, float*, const int*);
template int getrs(int, int, const float*, const int*, float*);
template int potrf(bool, int, float*);
template int geqrf(int, int, float*, float*);
template int orgqr(int, int, int, float*, const float*);
template int gesdd(char, int, int, float*, float*, float*, int, float*, int);
template int syevd(bool, bool, int, float*, float*);
template int gelsy(int, int, int, float*, float*, float, int*);
template void trsm(bool, bool, int, int, const float*, float*);
template int getrf(int, int, double*, int*);
template int getri(int, double*, const int*);
template int getrs(int, int, const double*, const int*, double*);
template int potrf(bool, int, double*);
template int geqrf(int, int, double*, double*);
template int orgqr(int, int, int, double*, const double*);
template int gesdd(char, int, int, double*, double*, double*, int, double*, int);
template int syevd(bool, bool, int, double*, double*);
template int gelsy(int, int, int, double*, double*, double, int*);
template void trsm(bool, bool, int, int, const double*, double*);

}  // namespace tern::kernels::lapack
