// Computes a planned batch of products: one task per panel of C and part of the sums, or one large
// product on all threads. The plan is made in gemm_plan.cpp.
#include "tern/core/kernels/products/gemm.h"

#include <algorithm>
#include <type_traits>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/flops.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/products.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/bf16/bf16_elements.h"
#include "tern/core/kernels/bf16/gemm_bf16.h"
#include "tern/core/kernels/products/gemm_plan.h"
#include "tern/core/kernels/products/gemm_tiles.h"
#include "tern/core/kernels/products/product.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

struct Offset {
  int64_t a = 0, b = 0, c = 0;
};

/// The offset of product i of a batch.
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
  /// `whole`: the plan's first product.
  Run(const GemmPlan& plan, const Product<T>& whole, bool tiles, const PanelDone& done)
      : p_(plan),
        g_(plan.g),
        tiles_(tiles && g_.m > 1 && g_.n > 1),
        whole_(whole),
        done_(done),
        partial_((plan.splits - 1) * plan.batches * plan.g.m * plan.g.n) {}

  void run() {
    const int64_t panels = p_.grid_rows * p_.grid_cols;
    const int64_t groups = ceil_div(p_.batches, p_.group);
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

  // Computes part `split` of the sums of one panel.
  void compute(int64_t batch, int64_t panel, int64_t split) {
    const Offset at = locate(g_.batch, batch);
    const int64_t i = panel / p_.grid_cols * p_.rows, j = panel % p_.grid_cols * p_.cols;
    const Panel out = panel_of(batch, panel);
    Product<T> part = whole_;
    part.m = out.rows;
    part.n = out.cols;
    part.c += out.offset;
    if (split > 0) {
      part.c =
          partial_.data() + (split - 1) * p_.batches * g_.m * g_.n + (batch * g_.m + i) * g_.n + j;
      part.ldc = g_.n;
      part.beta = 0;
    }
    const int64_t units = g_.k == 0 ? 0 : p_.units();
    const int64_t first = split * units / p_.splits, last = (split + 1) * units / p_.splits;
    if (first == last) scale(part.c, part.m, part.n, part.ldc, part.beta);
    for (int64_t u = first; u < last; ++u) {
      const Offset term = locate(p_.sums, u / p_.k_blocks);
      const int64_t block = u % p_.k_blocks;
      const int64_t k0 = block * g_.k / p_.k_blocks, k1 = (block + 1) * g_.k / p_.k_blocks;
      part.k = k1 - k0;
      part.a.data = moved(whole_.a.data, at.a + term.a + i * g_.a.row + k0 * g_.a.col);
      part.b.data = moved(whole_.b.data, at.b + term.b + j * g_.b.col + k0 * g_.b.row);
      multiply_part(part);
      part.beta = 1;
    }
    if (done_ && p_.splits == 1) done_(out);
  }

  // The last panel may have one row or column. It is summed like the other panels, not like a
  // product with a vector.
  void multiply_part(const Product<T>& part) const {
    if constexpr (std::is_same_v<T, float>)
      if (tiles_ && part.k > 0) return multiply_tiles(part);
    multiply(part);
  }

  // Adds the parts of the sums in order to the first part, which is in C.
  void combine() {
    // Sums of bf16 products below the smallest normal number become zero (precision.h).
    constexpr bool kFlushes = std::is_same_v<T, float>;
    const bool flush = matmul_precision() == MatmulPrecision::bf16;
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
          T* to = whole_.c + out.offset + r * out.stride;
          const T* from = part + r * g_.n;
          simd([=, n = out.cols] {
            for (int64_t x = 0; x < n; ++x) to[x] += from[x];
            if constexpr (kFlushes)
              for (int64_t x = 0; flush && x < n; ++x) to[x] = flushed(to[x]);
          });
        }
      }
      if (done_) done_(out);
    });
  }

  const GemmPlan& p_;
  const Gemm& g_;
  bool tiles_;  // whether multiply_tiles computes panels
  const Product<T>& whole_;
  const PanelDone& done_;
  Scratch<T> partial_;
};

/// Whether the plan is one large product that our own tiles compute.
bool together(const GemmPlan& p, bool tiles) {
  const double flops =
      2.0 * static_cast<double>(p.g.m) * static_cast<double>(p.g.n) * static_cast<double>(p.g.k);
  return tiles && p.batches == 1 && p.terms == 1 && p.splits == 1 && p.g.m > 1 && p.g.n > 1 &&
         flops >= kWorthTogether;
}

}  // namespace

template <class T>
void gemm(const Gemm& shape, Elements<T> a, Elements<T> b, T* c, T beta, const PanelDone& done) {
  int64_t flops = 2 * shape.m * shape.n * shape.k;
  for (int64_t size : shape.batch.sizes) flops *= size;
  tern::detail::CountFlops counted(flops);
  const bool bf16 = std::is_same_v<T, float> && matmul_precision() == MatmulPrecision::bf16;
  const bool tiles = bf16 || (std::is_same_v<T, float> && !products_by_blas());
  const GemmPlan plan = plan_gemm(shape, tiles, in_serial() ? 1 : num_threads());
  if (plan.batches * plan.g.m * plan.g.n == 0) return;
  if (plan.swapped) std::swap(a, b);
  const Gemm& g = plan.g;
  const Product<T> whole{g.m, g.n, g.k, {a, g.a}, {b, g.b}, c, g.c.row, beta};
  if constexpr (std::is_same_v<T, float>) {
    if (together(plan, tiles))
      return bf16 ? multiply_bf16_together(whole, done) : multiply_tiles_together(whole, done);
  }
  if constexpr (std::is_floating_point_v<T>) {
    BlasScope blas;
    Run<T>(plan, whole, tiles && !bf16, done).run();
  } else {
    Run<T>(plan, whole, false, done).run();
  }
}

template void gemm(const Gemm&, Factor, Factor, float*, float, const PanelDone&);
template void gemm(const Gemm&, const double*, const double*, double*, double, const PanelDone&);
template void gemm(const Gemm&, const int64_t*, const int64_t*, int64_t*, int64_t,
                   const PanelDone&);

}  // namespace tern::kernels
