#include "tern/core/kernels/gemm.h"

#include <cblas.h>

#include <algorithm>
#include <type_traits>

#include "tern/core/cpu.h"
#include "tern/core/kernels/gemm_plan.h"
#include "tern/core/kernels/gemm_tiles.h"
#include "tern/core/kernels/scratch.h"
#include "tern/core/simd.h"
#include "tern/core/threads.h"

namespace tern::kernels {
namespace {

/// A matrix for BLAS: row-major with leading dimension ld, or the transpose of such a one.
template <class T>
struct Operand {
  const T* data;
  CBLAS_TRANSPOSE op;
  int ld;
};

template <class T>
Operand<T> operand(const T* data, int64_t rows, int64_t cols, MatrixStrides s) {
  bool row_major = (s.col == 1 || cols == 1) && (rows == 1 || s.row >= cols);
  int64_t ld = row_major ? (rows == 1 ? cols : s.row) : (cols == 1 ? rows : s.col);
  return {data, row_major ? CblasNoTrans : CblasTrans, static_cast<int>(std::max<int64_t>(ld, 1))};
}

void call_gemm(int m, int n, int k, Operand<float> a, Operand<float> b, float beta, float* c,
               int ldc) {
  cblas_sgemm(CblasRowMajor, a.op, b.op, m, n, k, 1, a.data, a.ld, b.data, b.ld, beta, c, ldc);
}

void call_gemm(int m, int n, int k, Operand<double> a, Operand<double> b, double beta, double* c,
               int ldc) {
  cblas_dgemm(CblasRowMajor, a.op, b.op, m, n, k, 1, a.data, a.ld, b.data, b.ld, beta, c, ldc);
}

/// y += op(A) x, with A stored as rows x cols.
void call_gemv(Operand<float> a, int rows, int cols, const float* x, int incx, float* y, int incy) {
  cblas_sgemv(CblasRowMajor, a.op, rows, cols, 1, a.data, a.ld, x, incx, 1, y, incy);
}

void call_gemv(Operand<double> a, int rows, int cols, const double* x, int incx, double* y,
               int incy) {
  cblas_dgemv(CblasRowMajor, a.op, rows, cols, 1, a.data, a.ld, x, incx, 1, y, incy);
}

/// C *= beta, without reading C where beta is 0.
template <class T>
void scale(T* c, int64_t rows, int64_t cols, int64_t stride, T beta) {
  if (beta == T(1)) return;
  for (int64_t i = 0; i < rows; ++i) {
    T* row = c + i * stride;
    if (beta == T(0)) {
      std::fill(row, row + cols, T(0));
    } else {
      simd([=] {
        for (int64_t j = 0; j < cols; ++j) row[j] *= beta;
      });
    }
  }
}

template <class T>
struct Part {
  const T* a;
  const T* b;
  T* c;
  int64_t m, n, k, ldc;
};

/// y = M x + beta y for an m x n matrix M with strides s.
template <class T>
void multiply_vector(const T* matrix, int64_t m, int64_t n, MatrixStrides s, const T* x,
                     int64_t incx, T* y, int64_t incy) {
  Operand<T> a = operand(matrix, m, n, s);
  bool as_stored = a.op == CblasNoTrans;
  call_gemv(a, static_cast<int>(as_stored ? m : n), static_cast<int>(as_stored ? n : m), x,
            static_cast<int>(incx), y, static_cast<int>(incy));
}

template <class T>
void multiply(const Gemm& g, const Part<T>& p, T beta) {
  if (p.m == 1 || p.n == 1) {
    scale(p.c, p.m, p.n, p.ldc, beta);
    int64_t inc_a = p.k == 1 ? 1 : g.a.col, inc_b = p.k == 1 ? 1 : g.b.row;
    if (p.n == 1)
      multiply_vector(p.a, p.m, p.k, g.a, p.b, inc_b, p.c, p.m == 1 ? 1 : p.ldc);
    else
      multiply_vector(p.b, p.n, p.k, MatrixStrides{g.b.col, g.b.row}, p.a, inc_a, p.c, 1);
    return;
  }
  if constexpr (std::is_same_v<T, float>) {
    if (tiles_available())
      return multiply_tiles(p.m, p.n, p.k, p.a, g.a, p.b, g.b, beta, p.c, p.ldc);
  }
  call_gemm(static_cast<int>(p.m), static_cast<int>(p.n), static_cast<int>(p.k),
            operand(p.a, p.m, p.k, g.a), operand(p.b, p.k, p.n, g.b), beta, p.c,
            static_cast<int>(p.ldc));
}

template <>
void multiply(const Gemm& g, const Part<int64_t>& p, int64_t beta) {
  scale(p.c, p.m, p.n, p.ldc, beta);
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t l = 0; l < p.k; ++l) {
      const int64_t x = p.a[i * g.a.row + l * g.a.col];
      const int64_t* row = p.b + l * g.b.row;
      for (int64_t j = 0; j < p.n; ++j) p.c[i * p.ldc + j] += x * row[j * g.b.col];
    }
}

struct Offset {
  int64_t a = 0, b = 0, c = 0;
};

/// Where product number i of a batch lies.
Offset locate(const BatchAxes& axes, int64_t i) {
  Offset o;
  for (int k = axes.sizes.size() - 1; k >= 0; --k) {
    int64_t index = i % axes.sizes[k];
    i /= axes.sizes[k];
    o.a += index * axes.a[k];
    o.b += index * axes.b[k];
    o.c += index * axes.c[k];
  }
  return o;
}

template <class T>
class Run {
 public:
  Run(const GemmPlan& plan, const T* a, const T* b, T* c, T beta, const PanelDone& done)
      : p_(plan),
        g_(plan.g),
        a_(a),
        b_(b),
        c_(c),
        beta_(beta),
        done_(done),
        partial_((plan.splits - 1) * plan.batches * plan.g.m * plan.g.n) {}

  void run() {
    const int64_t panels = p_.grid_rows * p_.grid_cols;
    const int64_t groups = (p_.batches + p_.group - 1) / p_.group;
    const int64_t outputs = groups * panels;
    const int64_t work = p_.batches * p_.terms * g_.m * g_.n * g_.k;
    parallel_blocks(outputs * p_.splits, work, [&](int64_t task) {
      int64_t group = task % outputs / panels, panel = task % panels;
      int64_t last = std::min(p_.batches, (group + 1) * p_.group);
      for (int64_t i = group * p_.group; i < last; ++i) compute(i, panel, task / outputs);
    });
    if (p_.splits > 1) combine();
  }

 private:
  Panel panel_of(int64_t batch, int64_t panel) const {
    int64_t i = panel / p_.grid_cols * p_.rows, j = panel % p_.grid_cols * p_.cols;
    return {locate(g_.batch, batch).c + i * g_.c.row + j, std::min(p_.rows, g_.m - i),
            std::min(p_.cols, g_.n - j), g_.c.row};
  }

  // Part number `split` of the sums of one panel.
  void compute(int64_t batch, int64_t panel, int64_t split) {
    const Offset at = locate(g_.batch, batch);
    const int64_t i = panel / p_.grid_cols * p_.rows, j = panel % p_.grid_cols * p_.cols;
    const Panel out = panel_of(batch, panel);
    Part<T> part{nullptr, nullptr, c_ + out.offset, out.rows, out.cols, 0, out.stride};
    if (split > 0) {
      part.c =
          partial_.data() + (split - 1) * p_.batches * g_.m * g_.n + (batch * g_.m + i) * g_.n + j;
      part.ldc = g_.n;
    }
    T beta = split == 0 ? beta_ : T(0);
    const int64_t units = g_.k == 0 ? 0 : p_.units();
    const int64_t first = split * units / p_.splits, last = (split + 1) * units / p_.splits;
    if (first == last) scale(part.c, part.m, part.n, part.ldc, beta);
    for (int64_t u = first; u < last; ++u) {
      const Offset term = locate(p_.sums, u / p_.k_blocks);
      const int64_t block = u % p_.k_blocks;
      const int64_t k0 = block * g_.k / p_.k_blocks, k1 = (block + 1) * g_.k / p_.k_blocks;
      part.a = a_ + at.a + term.a + i * g_.a.row + k0 * g_.a.col;
      part.b = b_ + at.b + term.b + j * g_.b.col + k0 * g_.b.row;
      part.k = k1 - k0;
      if (part.k > 0) multiply(g_, part, u == first ? beta : T(1));
    }
    if (done_ && p_.splits == 1) done_(out);
  }

  // Adds the parts of the sums, in order, to the first part, which stands in C.
  void combine() {
    const int64_t panels = p_.grid_rows * p_.grid_cols;
    const int64_t work = 10 * p_.splits * p_.batches * g_.m * g_.n;
    parallel_blocks(p_.batches * panels, work, [&](int64_t task) {
      const int64_t batch = task / panels, panel = task % panels;
      const int64_t i = panel / p_.grid_cols * p_.rows, j = panel % p_.grid_cols * p_.cols;
      const Panel out = panel_of(batch, panel);
      for (int64_t s = 1; s < p_.splits; ++s) {
        const T* part =
            partial_.data() + (s - 1) * p_.batches * g_.m * g_.n + (batch * g_.m + i) * g_.n + j;
        for (int64_t r = 0; r < out.rows; ++r) {
          T* to = c_ + out.offset + r * out.stride;
          const T* from = part + r * g_.n;
          simd([=, n = out.cols] {
            for (int64_t x = 0; x < n; ++x) to[x] += from[x];
          });
        }
      }
      if (done_) done_(out);
    });
  }

  const GemmPlan& p_;
  const Gemm& g_;
  const T* a_;
  const T* b_;
  T* c_;
  T beta_;
  const PanelDone& done_;
  Scratch<T> partial_;
};

/// Whether the plan is one large product for our own tiles.
bool together(const GemmPlan& p) {
  const double flops =
      2.0 * static_cast<double>(p.g.m) * static_cast<double>(p.g.n) * static_cast<double>(p.g.k);
  return tiles_available() && p.batches == 1 && p.terms == 1 && p.splits == 1 && p.g.m > 1 &&
         p.g.n > 1 && flops >= kWorthTogether;
}

}  // namespace

template <class T>
void gemm(const Gemm& shape, const T* a, const T* b, T* c, T beta, const PanelDone& done) {
  const GemmPlan plan = plan_gemm(shape, std::is_same_v<T, float> && tiles_available());
  if (plan.batches * plan.g.m * plan.g.n == 0) return;
  if (plan.swapped) std::swap(a, b);
  if constexpr (std::is_same_v<T, float>) {
    const Gemm& g = plan.g;
    if (together(plan))
      return multiply_tiles_together(g.m, g.n, g.k, a, g.a, b, g.b, beta, c, g.c.row, done);
  }
  if constexpr (std::is_floating_point_v<T>) {
    BlasScope blas;
    Run<T>(plan, a, b, c, beta, done).run();
  } else {
    Run<T>(plan, a, b, c, beta, done).run();
  }
}

template void gemm(const Gemm&, const float*, const float*, float*, float, const PanelDone&);
template void gemm(const Gemm&, const double*, const double*, double*, double, const PanelDone&);
template void gemm(const Gemm&, const int64_t*, const int64_t*, int64_t*, int64_t,
                   const PanelDone&);

}  // namespace tern::kernels
