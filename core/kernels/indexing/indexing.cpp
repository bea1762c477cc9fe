// Gathers and scatters along an axis, checks indices, and lists nonzero elements.
#include "tern/core/kernels/indexing/indexing.h"

#include <atomic>
#include <cstdlib>
#include <limits>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/creation/copy.h"
#include "tern/core/kernels/elementwise/arithmetic.h"

namespace tern::kernels {
namespace {

constexpr int64_t kIndexingGrain = 16384;  // elements per thread, at least

[[gnu::always_inline]] inline bool inside(int64_t i, int64_t size) {
  return static_cast<uint64_t>(i) < static_cast<uint64_t>(size);
}

void lower(std::atomic<int64_t>& least, int64_t value) {
  int64_t seen = least.load();
  while (value < seen && !least.compare_exchange_weak(seen, value)) continue;
}

template <class T>
void copy_run(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t count) {
  if (to_stride != 1 || from_stride != 1) {
    for (int64_t i = 0; i < count; ++i) to[i * to_stride] = from[i * from_stride];
  } else if (count < kShortRow) {
    copy_short(to, from, count);
  } else {
    copy_contiguous(to, from, count);
  }
}

// The operands of a block of a gather, at its first element.
template <class T>
struct Gathered {
  T* to;
  const int64_t* index;
  const T* from;
  int64_t axis_stride, skip;  // the elements at index k are at from + k * axis_stride
};

// Rows of n contiguous elements, each with an index of its own.
template <class T, class N>
void gather_rows(const Gathered<T>& g, const Loops& loops, int64_t rows, N n) {
  const int64_t to_step = loops.row_stride(0), index_step = loops.row_stride(1);
  const int64_t from_step = loops.row_stride(2), axis_stride = g.axis_stride, skip = g.skip;
  T* to = g.to;
  const int64_t* index = g.index;
  const T* from = g.from;
  for (int64_t r = 0; r < rows; ++r, to += to_step, index += index_step, from += from_step) {
    if (*index == skip)
      for (int64_t i = 0; i < n; ++i) to[i] = T{};
    else
      copy_short(to, from + *index * axis_stride, n);
  }
}

template <class T>
void gather_short_rows(const Gathered<T>& g, const Loops& loops, int64_t rows, int64_t n) {
  if (n == 2) return gather_rows(g, loops, rows, std::integral_constant<int64_t, 2>());
  if (n == 3) return gather_rows(g, loops, rows, std::integral_constant<int64_t, 3>());
  if (n == 4) return gather_rows(g, loops, rows, std::integral_constant<int64_t, 4>());
  if (n == 8) return gather_rows(g, loops, rows, std::integral_constant<int64_t, 8>());
  gather_rows(g, loops, rows, n);
}

// Elements with an index each.
template <class T>
void gather_elements(const Gathered<T>& g, const Loops& loops, int64_t rows, int64_t n) {
  const int64_t ts = loops.inner_stride(0), is = loops.inner_stride(1), fs = loops.inner_stride(2);
  const int64_t axis_stride = g.axis_stride, skip = g.skip;
  for (int64_t r = 0; r < rows; ++r) {
    T* to = g.to + r * loops.row_stride(0);
    const int64_t* index = g.index + r * loops.row_stride(1);
    const T* from = g.from + r * loops.row_stride(2);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t k = index[i * is];
      to[i * ts] = k == skip ? T{} : from[i * fs + k * axis_stride];
    }
  }
}

template <class T>
void gather_items(const Loops& loops, T* to, const int64_t* index, const T* from, int64_t stride,
                  int64_t skip) {
  const T zero{};
  const int64_t ts = loops.inner_stride(0), fs = loops.inner_stride(2);
  const bool by_rows = loops.inner_stride(1) == 0;
  parallel_for(loops.numel, kIndexingGrain, [&](int64_t first, int64_t last) {
    for_each_block(loops, first, last, [&](const Offsets& at, int64_t rows, int64_t count) {
      const Gathered<T> g = {to + at[0], index + at[1], from + at[2], stride, skip};
      if (!by_rows) return gather_elements(g, loops, rows, count);
      if (ts == 1 && fs == 1 && count < kShortRow) return gather_short_rows(g, loops, rows, count);
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t k = g.index[r * loops.row_stride(1)];
        const bool none = k == skip;
        copy_run(g.to + r * loops.row_stride(0), ts,
                 none ? &zero : g.from + r * loops.row_stride(2) + k * stride, none ? 0 : fs,
                 count);
      }
    });
  });
}

template <class T, class F>
void combine_row(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t n,
                 F combine) {
  if (to_stride == 1 && from_stride == 1)
    simd([=] {
      for (int64_t i = 0; i < n; ++i) to[i] = combine(to[i], from[i]);
    });
  else
    for (int64_t i = 0; i < n; ++i)
      to[i * to_stride] = combine(to[i * to_stride], from[i * from_stride]);
}

template <class T, class F>
void scatter_items(const Loops& lines, const ScatterAxis& axis, T* to, const int64_t* index,
                   const T* from, int64_t skip, F combine) {
  const int64_t ts = lines.inner_stride(0), is = lines.inner_stride(1), fs = lines.inner_stride(2);
  // Iterates along the axis line by line, or over all lines step by step: whichever has the smaller
  // stride in memory.
  const bool line_by_line =
      std::abs(axis.from_stride) + std::abs(axis.to_stride) < std::abs(fs) + std::abs(ts);
  auto add_steps = [&](const Offsets& at, int64_t count) {
    for (int64_t k = 0; k < axis.size; ++k) {
      T* t = to + at[0];
      const int64_t* x = index + at[1] + k * axis.index_stride;
      const T* f = from + at[2] + k * axis.from_stride;
      if (is == 0) {
        if (*x == skip) continue;
        t += *x * axis.to_stride;
        combine_row(t, ts, f, fs, count, combine);
      } else {
        for (int64_t i = 0; i < count; ++i) {
          int64_t n = x[i * is];
          if (n == skip) continue;
          T& y = t[i * ts + n * axis.to_stride];
          y = combine(y, f[i * fs]);
        }
      }
    }
  };
  int64_t grain = kIndexingGrain / std::max<int64_t>(axis.size, 1) + 1;
  parallel_for(lines.numel, grain, [&](int64_t first, int64_t last) {
    for_each_run(lines, first, last, [&](const Offsets& at, int64_t count) {
      if (!line_by_line) return add_steps(at, count);
      for (int64_t i = 0; i < count; ++i)
        add_steps({at[0] + i * ts, at[1] + i * is, at[2] + i * fs}, 1);
    });
  });
}

}  // namespace

int64_t first_out_of_range(const Loops& loops, const int64_t* index, int64_t size) {
  const int64_t none = std::numeric_limits<int64_t>::max();
  std::atomic<int64_t> found{none};
  const int64_t stride = loops.inner_stride(0);
  parallel_for(loops.numel, kIndexingGrain, [&](int64_t first, int64_t last) {
    int64_t position = first;
    for_each_run(loops, first, last, [&](const Offsets& at, int64_t count) {
      const int64_t* run = index + at[0];
      const bool all_inside = simd([=] {
        bool inside_so_far = true;
        for (int64_t i = 0; i < count; ++i) inside_so_far &= inside(run[i * stride], size);
        return inside_so_far;
      });
      for (int64_t i = 0; i < count && !all_inside; ++i)
        if (!inside(run[i * stride], size)) lower(found, position + i);
      position += count;
    });
  });
  return found == none ? -1 : found.load();
}

void gather(const Loops& loops, int64_t item_size, void* to, const int64_t* index, const void* from,
            int64_t stride, int64_t skip) {
  auto run = [&]<class T>(T*) {
    gather_items(loops, static_cast<T*>(to), index, static_cast<const T*>(from), stride, skip);
  };
  if (item_size == 1) return run(static_cast<uint8_t*>(nullptr));
  if (item_size == 4) return run(static_cast<uint32_t*>(nullptr));
  run(static_cast<uint64_t*>(nullptr));
}

void scatter(DType type, Combine how, const Loops& lines, const ScatterAxis& axis, void* to,
             const int64_t* index, const void* from, int64_t skip) {
  dispatch(type, [&]<class T>() {
    auto run = [&](auto combine) {
      scatter_items(lines, axis, static_cast<T*>(to), index, static_cast<const T*>(from), skip,
                    combine);
    };
    switch (how) {
      case Combine::set:
        return run([](T, T v) { return v; });
      case Combine::add:
        return run(Add());
      case Combine::multiply:
        return run(Multiply());
      case Combine::largest:
        return run([](T y, T v) { return v > y || v != v ? v : y; });
      case Combine::smallest:
        return run([](T y, T v) { return v < y || v != v ? v : y; });
    }
  });
}

std::vector<int64_t> nonzero(DType type, const void* x, int64_t n) {
  const int64_t blocks = ceil_div(n, kIndexingGrain);
  std::vector<std::vector<int64_t>> found(static_cast<size_t>(blocks));
  dispatch(type, [&]<class T>() {
    const T* values = static_cast<const T*>(x);
    parallel_blocks(blocks, [&](int64_t block) {
      std::vector<int64_t>& own = found[static_cast<size_t>(block)];
      for (int64_t i = block * kIndexingGrain, end = std::min(n, i + kIndexingGrain); i < end; ++i)
        if (values[i] != 0) own.push_back(i);
    });
  });
  std::vector<int64_t> all;
  size_t count = 0;
  for (const auto& own : found) count += own.size();
  all.reserve(count);
  for (const auto& own : found) all.insert(all.end(), own.begin(), own.end());
  return all;
}

}  // namespace tern::kernels
