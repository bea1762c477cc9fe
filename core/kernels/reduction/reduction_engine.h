// Reduces by rows or by columns (reduction.h), for any operation of this form:
//
//   struct Op {
//     using In = ..., Acc = ..., Out = ...;
//     Acc start() const;                    // the value of an empty reduction
//     Acc step(Acc a, In x) const;          // adds one element
//     Acc merge(Acc a, Acc b) const;        // combines two parts
//     Out finish(Acc a) const;
//   };
//
// Inside of core only.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <type_traits>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/storage.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/reduction/reduction.h"

namespace tern::kernels {

/// Number of elements of x in one piece of work, and the largest number of columns in it.
constexpr int64_t kReduceBlock = 1 << 15;
constexpr int64_t kReduceColumns = 512;

/// Runs f as vector code for floats. For integers baseline code is enough; it compiles in a third
/// of the time.
template <class In, class F>
auto run_for(F f) {
  if constexpr (std::is_floating_point_v<In>)
    return simd(f);
  else
    return f();
}

/// Reduces n elements, `stride` apart, into 32 running values, so that the loop is vectorised.
template <class Op>
[[gnu::always_inline]] inline typename Op::Acc reduce_run(Op op, const typename Op::In* x,
                                                          int64_t n, int64_t stride) {
  using Acc = typename Op::Acc;
  constexpr int kLanes = 32;
  Acc a = op.start();
  int64_t i = 0;
  if (stride == 1 && n >= kLanes) {
    Acc lane[kLanes];
    for (int l = 0; l < kLanes; ++l) lane[l] = op.start();
    for (; i + kLanes <= n; i += kLanes)
      for (int l = 0; l < kLanes; ++l) lane[l] = op.step(lane[l], x[i + l]);
    for (int half = kLanes / 2; half > 0; half /= 2)
      for (int l = 0; l < half; ++l) lane[l] = op.merge(lane[l], lane[l + half]);
    a = lane[0];
  }
  for (; i < n; ++i) a = op.step(a, x[i * stride]);
  return a;
}

/// Adds `rows` elements of each column j to acc[j].
template <class Op>
[[gnu::always_inline]] inline void reduce_columns_run(Op op, const typename Op::In* x, int64_t rows,
                                                      int64_t row_stride, int64_t columns,
                                                      int64_t column_stride,
                                                      typename Op::Acc* acc) {
  int64_t r = 0;
  if (column_stride == 1) {
    for (; r + 4 <= rows; r += 4) {
      const auto *x0 = x + r * row_stride, *x1 = x0 + row_stride, *x2 = x1 + row_stride,
                 *x3 = x2 + row_stride;
#pragma omp simd
      for (int64_t j = 0; j < columns; ++j)
        acc[j] = op.step(op.step(op.step(op.step(acc[j], x0[j]), x1[j]), x2[j]), x3[j]);
    }
  }
  for (; r < rows; ++r)
    for (int64_t j = 0; j < columns; ++j)
      acc[j] = op.step(acc[j], x[r * row_stride + j * column_stride]);
}

/// Reduces elements [first, last) of the reduced axes.
template <class Op>
typename Op::Acc reduce_range(Op op, const Loops& reduced, const typename Op::In* x, int64_t first,
                              int64_t last) {
  typename Op::Acc a = op.start();
  const int64_t stride = reduced.inner_stride(0);
  for_each_run(reduced, first, last, [&](const Offsets& at, int64_t count) {
    const auto* run = x + at[0];
    a = op.merge(a, run_for<typename Op::In>([=] { return reduce_run(op, run, count, stride); }));
  });
  return a;
}

/// y[i] = the results part[b * n + i] of all parts b, merged in order.
template <class Op>
void merge_parts(Op op, const typename Op::Acc* part, int64_t parts, int64_t n,
                 typename Op::Out* y) {
  constexpr int64_t kGrain = 1 << 12, kColumns = 64;
  parallel_for(n, std::max(kColumns, kGrain / parts), [=](int64_t begin, int64_t end) {
    for (; begin < end; begin += kColumns) {
      const int64_t columns = std::min(kColumns, end - begin);
      run_for<typename Op::In>([=, y = y + begin] {
        typename Op::Acc acc[kColumns];
        std::copy_n(part + begin, columns, acc);
        for (int64_t b = 1; b < parts; ++b) {
          const typename Op::Acc* from = part + b * n + begin;
#pragma omp simd
          for (int64_t j = 0; j < columns; ++j) acc[j] = op.merge(acc[j], from[j]);
        }
        for (int64_t j = 0; j < columns; ++j) y[j] = op.finish(acc[j]);
      });
    }
  });
}

/// For a contiguous reduced axis: computes each result on its own. Long rows are cut into parts.
template <class Op>
void reduce_rows(const ReducePlan& plan, Op op, const typename Op::In* x, typename Op::Out* y) {
  using Acc = typename Op::Acc;
  const int64_t kept = plan.kept.numel, n = plan.reduced.numel;
  const int64_t parts = std::max<int64_t>(1, n / kReduceBlock);
  if (parts > 1) {
    tern::detail::Storage scratch(static_cast<size_t>(kept * parts) * sizeof(Acc));
    Acc* part = static_cast<Acc*>(scratch.data());
    parallel_for(kept * parts, 1, [&](int64_t begin, int64_t end) {
      for (int64_t task = begin; task < end; ++task) {
        int64_t k = task / parts, b = task % parts;
        Dims index;
        int64_t at = seek(plan.kept, k, index)[0];
        part[b * kept + k] =
            reduce_range(op, plan.reduced, x + at, n * b / parts, n * (b + 1) / parts);
      }
    });
    return merge_parts(op, part, parts, kept, y);
  }
  const bool one_run = plan.reduced.sizes.size() == 1;
  const int64_t step = plan.kept.inner_stride(0), stride = plan.reduced.inner_stride(0);
  parallel_for(kept, std::max<int64_t>(1, kReduceBlock / std::max<int64_t>(n, 1)),
               [&](int64_t begin, int64_t end) {
                 auto* out = y + begin;
                 for_each_run(plan.kept, begin, end, [&](const Offsets& at, int64_t count) {
                   const auto* row = x + at[0];
                   if (one_run) {
                     run_for<typename Op::In>([=] {
                       for (int64_t i = 0; i < count; ++i)
                         out[i] = op.finish(reduce_run(op, row + i * step, n, stride));
                     });
                   } else {
                     for (int64_t i = 0; i < count; ++i)
                       out[i] = op.finish(reduce_range(op, plan.reduced, row + i * step, 0, n));
                   }
                   out += count;
                 });
               });
}

/// For a contiguous kept axis: adds row after row to blocks of columns.
template <class Op>
void reduce_columns(const ReducePlan& plan, Op op, const typename Op::In* x, typename Op::Out* y) {
  using Acc = typename Op::Acc;
  const int64_t kept = plan.kept.numel, n = plan.reduced.numel;
  const int64_t columns = plan.kept.inner_size(), step = plan.kept.inner_stride(0);
  const int64_t width = std::min(columns, kReduceColumns);
  const int64_t blocks = ceil_div(columns, width), bands = kept / columns * blocks;
  const int64_t parts = std::clamp<int64_t>(n / (kReduceBlock / width), 1, n);
  tern::detail::Storage scratch(parts > 1 ? static_cast<size_t>(kept * parts) * sizeof(Acc) : 0);
  Acc* part = static_cast<Acc*>(scratch.data());
  auto run_task = [&](int64_t task) {
    const int64_t b = task / bands, outer = task % bands / blocks, c0 = task % blocks * width;
    const int64_t c1 = std::min(columns, c0 + width), count = c1 - c0, to = outer * columns + c0;
    Dims index;
    const auto* base = x + seek(plan.kept, to, index)[0];
    alignas(64) Acc local[kReduceColumns];
    Acc* acc = parts > 1 ? part + b * kept + to : local;
    std::fill_n(acc, count, op.start());
    const int64_t row_stride = plan.reduced.inner_stride(0);
    for_each_run(plan.reduced, n * b / parts, n * (b + 1) / parts,
                 [&](const Offsets& at, int64_t rows) {
                   const auto* run = base + at[0];
                   run_for<typename Op::In>(
                       [=] { reduce_columns_run(op, run, rows, row_stride, count, step, acc); });
                 });
    if (parts == 1) std::transform(acc, acc + count, y + to, [&](Acc a) { return op.finish(a); });
  };
  const int64_t work = std::max<int64_t>(1, width * (n / parts));
  parallel_for(bands * parts, std::max<int64_t>(1, kReduceBlock / work),
               [&](int64_t begin, int64_t end) {
                 for (int64_t task = begin; task < end; ++task) run_task(task);
               });
  if (parts > 1) merge_parts(op, part, parts, kept, y);
}

template <class Op>
void reduce(const ReducePlan& plan, Op op, const typename Op::In* x, typename Op::Out* y) {
  if (plan.kept.numel == 0) return;
  if (plan.reduced.numel == 0) {
    std::fill_n(y, plan.kept.numel, op.finish(op.start()));
    return;
  }
  const int64_t kept_stride = std::abs(plan.kept.inner_stride(0));
  const bool columns = plan.kept.inner_size() >= 8 && kept_stride < plan.reduced.inner_stride(0);
  if (columns)
    reduce_columns(plan, op, x + plan.first, y);
  else
    reduce_rows(plan, op, x + plan.first, y);
}

}  // namespace tern::kernels
