// Convolutions with one input channel per group. A thread copies planes of a channel, of one image
// or several, into cells (conv_flat.h) and computes vectors of outputs over all taps in registers.
// This file is compiled with fused multiply-adds: each output is a sum of them in tap order.
#include "tern/core/kernels/convolution/conv_depthwise.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/convolution/conv_flat.h"
#include "tern/core/kernels/scratch.h"
#include "tern/core/kernels/vectors.h"

namespace tern::kernels {
namespace {

constexpr int64_t kGrainTaps = 1 << 17;  // multiplications per thread, at least

/// The vector of T that has kBytes bytes.
template <class T, int kBytes>
struct VectorOf {
  typedef T Type __attribute__((vector_size(kBytes)));
};

/// Calls run.operator()<V>() with vectors V of T that fill a register, compiled for the processor.
/// run must be always_inline.
template <class T, class Run>
void with_vectors(const Run& run) {
  simd([=] { run.template operator()<typename VectorOf<T, 64>::Type>(); },
       [=] { run.template operator()<typename VectorOf<T, 32>::Type>(); },
       [=] { run.template operator()<typename VectorOf<T, 16>::Type>(); });
}

template <int kCount, class T>
[[gnu::always_inline]] inline void move(const T* from, T* to) {
  __builtin_memcpy(to, from, kCount * sizeof(T));
}

/// to[i] = from[2 * i] for i < kCount. Reads no element after from[2 * kCount - 2].
template <int kCount, class T>
[[gnu::always_inline]] inline void take_even(const T* from, T* to) {
  typename VectorOf<T, kCount * sizeof(T)>::Type low, high, even;
  load(low, from);
  load(high, from + kCount - 1);
  if constexpr (kCount == 8)
    even = __builtin_shufflevector(low, high, 0, 2, 4, 6, 9, 11, 13, 15);
  else
    even = __builtin_shufflevector(low, high, 0, 2, 5, 7);
  store(to, even);
}

/// to[2 * i] = even[i], to[2 * i + 1] = odd[i] for i < kCount.
template <int kCount, class T>
[[gnu::always_inline]] inline void interleave(const T* even, const T* odd, T* to) {
  typename VectorOf<T, kCount * sizeof(T)>::Type a, b, low, high;
  load(a, even);
  load(b, odd);
  if constexpr (kCount == 8) {
    low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
    high = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
  } else {
    low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  }
  store(to, low);
  store(to + kCount, high);
}

/// Calls few.operator()<kCount>(i) for vectors of elements i, ... that cover [0, n). The last
/// vector may overlap the one before it. REQUIRES: n >= kCount, or n = 0.
template <int kCount, class Few>
[[gnu::always_inline]] inline void in_vectors(int64_t n, Few few) {
  for (int64_t i = 0; i + kCount < n; i += kCount) few.template operator()<kCount>(i);
  if (n > 0) few.template operator()<kCount>(n - kCount);
}

/// The distances in memory between images, slices and rows of an array.
struct Distances {
  Distances(int64_t channels, const Conv::Sizes& size)
      : plane(size[0] * size[1] * size[2]), step{channels * plane, size[1] * size[2], size[2]} {}
  int64_t plane, step[3];
};

/// Calls row.operator()<kCount>(first element of the row in memory, its cell) for each row of a
/// phase. kCount, the number of elements per vector, is 8, 4 or 1: the largest that fits `length`.
template <class Row>
[[gnu::always_inline]] inline void each_row(const Flat& f, const FlatRun* run, const int64_t* step,
                                            const Distances& apart, int64_t length, Row row) {
  const FlatRun d = run[0], h = run[1];  // locals, which the stores of row() cannot change
  const int64_t images = f.images, image_cells = f.pitch[0], image_step = apart.step[0];
  const int64_t slice_cells = f.pitch[1], slice_step = step[0] * apart.step[1];
  const int64_t row_cells = f.pitch[2], row_step = step[1] * apart.step[2];
  const int64_t first = d.first * apart.step[1] + h.first * apart.step[2];
  auto all = [=]<int kCount>() __attribute__((always_inline)) {
    for (int64_t image = 0; image < images; ++image)
      for (int64_t i = d.begin; i < d.end; ++i) {
        int64_t there = first + image * image_step + i * slice_step + h.begin * row_step;
        int64_t here = image * image_cells + i * slice_cells + h.begin * row_cells;
        for (int64_t j = h.begin; j < h.end; ++j, there += row_step, here += row_cells)
          row.template operator()<kCount>(there, here);
      }
  };
  if (length >= 8)
    all.template operator()<8>();
  else if (length >= 4)
    all.template operator()<4>();
  else
    all.template operator()<1>();
}

/// Copies the planes at x to the cells of a phase of them.
template <class T>
[[gnu::always_inline]] inline void copy_in(const Flat& f, const FlatRun* run, const int64_t* step,
                                           const Distances& apart, const T* x, T* cells) {
  const int64_t n = run[2].end - run[2].begin, stride = step[2];
  x += run[2].first + run[2].begin * stride;
  cells += run[2].begin;
  if (stride == 1)
    each_row(f, run, step, apart, n, [=]<int kCount>(int64_t there, int64_t here) {
      in_vectors<kCount>(n,
                         [=]<int kFew>(int64_t i) { move<kFew>(x + there + i, cells + here + i); });
    });
  else if (stride == 2)
    each_row(f, run, step, apart, n, [=]<int kCount>(int64_t there, int64_t here) {
      in_vectors<kCount>(n, [=]<int kFew>(int64_t i) {
        if constexpr (kFew == 1)
          cells[here + i] = x[there + 2 * i];
        else
          take_even<kFew>(x + there + 2 * i, cells + here + i);
      });
    });
  else
    each_row(f, run, step, apart, 1, [=]<int>(int64_t there, int64_t here) {
      for (int64_t i = 0; i < n; ++i) cells[here + i] = x[there + i * stride];
    });
}

/// Copies the cells of a phase to the planes at y.
template <class T>
[[gnu::always_inline]] inline void copy_out(const Flat& f, const FlatRun* run, const int64_t* step,
                                            const Distances& apart, const T* cells, T* y) {
  const int64_t n = run[2].end - run[2].begin, stride = step[2];
  y += run[2].first + run[2].begin * stride;
  cells += run[2].begin;
  if (stride == 1)
    each_row(f, run, step, apart, n, [=]<int kCount>(int64_t there, int64_t here) {
      in_vectors<kCount>(n,
                         [=]<int kFew>(int64_t i) { move<kFew>(cells + here + i, y + there + i); });
    });
  else
    each_row(f, run, step, apart, 1, [=]<int>(int64_t there, int64_t here) {
      for (int64_t i = 0; i < n; ++i) y[there + i * stride] = cells[here + i];
    });
}

/// Copies the two phases of rows with stride 2. Cell i of the even phase precedes cell i of the odd
/// phase.
template <class T>
[[gnu::always_inline]] inline void copy_pairs_out(const Flat& f, const FlatRun* even,
                                                  const FlatRun* odd, const int64_t* step,
                                                  const Distances& apart, const T* cells,
                                                  const T* odd_cells, T* y) {
  const int64_t first = even[2].begin, n = odd[2].end - first;
  const bool before = odd[2].begin<first, after = even[2].end> odd[2].end;
  y += even[2].first + 2 * first;
  cells += first;
  odd_cells += first;
  each_row(f, even, step, apart, n, [=]<int kCount>(int64_t there, int64_t here) {
    if (before) y[there - 1] = odd_cells[here - 1];
    in_vectors<kCount>(n, [=]<int kFew>(int64_t i) {
      if constexpr (kFew == 1) {
        y[there + 2 * i] = cells[here + i];
        y[there + 2 * i + 1] = odd_cells[here + i];
      } else {
        interleave<kFew>(cells + here + i, odd_cells + here + i, y + there + 2 * i);
      }
    });
    if (after) y[there + 2 * n] = cells[here + n];
  });
}

/// y[q] = start + sum over k of w[k] * x[q + at[k]] for the cells q of kVectors vectors.
template <class V, int kVectors, class T>
[[gnu::always_inline]] inline void sum_taps(const T* x, const T* w, const int64_t* at, int64_t taps,
                                            T start, T* y) {
  constexpr int kLanes = sizeof(V) / sizeof(T);
  V sum[kVectors];
#pragma GCC unroll 10
  for (int v = 0; v < kVectors; ++v) sum[v] = start + V{};
  for (int64_t k = 0; k < taps; ++k) {
    const T* from = x + at[k];
    asm("" : "+r"(from));  // else g++ computes an address for each vector
    const T weight = w[k];
#pragma GCC unroll 10
    for (int v = 0; v < kVectors; ++v) {
      V cells;
      load(cells, from + v * kLanes);
      sum[v] += weight * cells;
    }
  }
#pragma GCC unroll 10
  for (int v = 0; v < kVectors; ++v) store(y + v * kLanes, sum[v]);
}

/// The same for `vectors` <= kMost vectors.
template <class V, int kMost, class T>
[[gnu::always_inline]] inline void sum_few(int64_t vectors, const T* x, const T* w,
                                           const int64_t* at, int64_t taps, T start, T* y) {
  if (vectors == kMost) return sum_taps<V, kMost>(x, w, at, taps, start, y);
  if constexpr (kMost > 1) sum_few<V, kMost - 1>(vectors, x, w, at, taps, start, y);
}

/// The same for n cells, rounded up to whole vectors.
template <class V, class T>
[[gnu::always_inline]] inline void sum_cells(int64_t n, const T* x, const T* w, const int64_t* at,
                                             int64_t taps, T start, T* y) {
  constexpr int64_t kLanes = sizeof(V) / sizeof(T);
  constexpr int kMost = 10;  // sums in registers, beside a weight: most processors have 16
  int64_t left = ceil_div(n, kLanes);
  for (int64_t blocks = ceil_div(left, kMost); blocks > 0; --blocks) {
    const int64_t vectors = left / blocks;  // blocks of about equal size
    sum_few<V, kMost>(vectors, x, w, at, taps, start, y);
    x += vectors * kLanes;
    y += vectors * kLanes;
    left -= vectors;
  }
}

/// Memory for the cells of a Flat: of `copies` planes of x and of two phases of y. Cells that hold
/// no element stay 0.
template <class T>
struct Cells {
  Cells(Flat layout, int64_t copies)
      : flat(std::move(layout)),
        step(std::ssize(flat.x) * flat.cells),
        x(std::max<int64_t>(copies * step, 1)),
        y(2 * flat.cells) {
    std::fill_n(x.data(), copies * step, T(0));
    std::fill_n(y.data(), 2 * flat.cells, T(0));
  }
  Flat flat;
  int64_t step;  ///< cells of a plane of x with all its phases
  Scratch<T> x, y;
};

template <class T>
[[gnu::always_inline]] inline void copy_into_cells(const Flat& f, const Distances& apart,
                                                   const T* x, T* cells) {
  for (size_t i = 0; i < f.x.size(); ++i)
    copy_in(f, f.x[i].runs.data(), f.x_step.data(), apart, x,
            cells + static_cast<int64_t>(i) * f.cells);
}

/// The forward pass, or the gradient by x. In the gradient x stands for dy and y for dx.
template <class T>
struct Depthwise {
  const Conv& c;
  FlatWay way;
  const T *x, *w, *bias;
  T* y;

  bool forward() const { return way == FlatWay::forward; }
  int64_t copies() const { return forward() ? 1 : c.out_group(); }   // planes of x per plane of y
  int64_t targets() const { return forward() ? c.out_group() : 1; }  // planes of y per plane of x

  /// Computes the planes of y of a channel for the images from `image` on. `weights` is working
  /// memory for w.
  template <class V>
  [[gnu::always_inline]] inline void planes(const Cells<T>& cells, int64_t image, int64_t channel,
                                            T* weights) const {
    const Flat& f = cells.flat;
    const Distances from(forward() ? c.in : c.out, forward() ? c.size : c.out_size);
    const Distances to(forward() ? c.out : c.in, forward() ? c.out_size : c.size);
    for (int64_t i = 0; i < copies(); ++i)
      copy_into_cells(f, from, x + image * from.step[0] + (channel * copies() + i) * from.plane,
                      cells.x.data() + i * cells.step);
    const bool pairs = f.y_step[2] == 2 && f.y_phases == 2;
    for (int64_t i = 0; i < targets(); ++i) {
      const int64_t plane = channel * targets() + i;
      T* there = y + image * to.step[0] + plane * to.plane;
      for (size_t j = 0; j < f.y.size(); ++j) {
        const Flat::Output& out = f.y[j];
        const int64_t taps = std::ssize(out.index);
        const T* of_taps = w + plane * copies() * c.taps();
        if (taps < copies() * c.taps()) {
          for (int64_t k = 0; k < taps; ++k)
            weights[k] = of_taps[out.index[static_cast<size_t>(k)]];
          of_taps = weights;
        }
        const bool odd = pairs && j % 2 == 1;
        T* here = cells.y.data() + (odd ? f.cells : 0);
        for (int64_t q = 0; q < f.images * f.pitch[0]; q += f.sweep.pitch)
          sum_cells<V>(f.sweep.cells, cells.x.data() + q, of_taps, out.at.data(), taps,
                       bias ? bias[plane] : T(0), here + q);
        if (!pairs)
          copy_out(f, out.runs.data(), f.y_step.data(), to, here, there);
        else if (odd)
          copy_pairs_out(f, f.y[j - 1].runs.data(), out.runs.data(), f.y_step.data(), to,
                         cells.y.data(), here, there);
      }
    }
  }

  void run() const {
    if (c.batch == 0 || c.in == 0) return;
    const FlatPieces pieces(c, way, copies(), 512);
    const int64_t work = c.work() / (pieces.size() * c.in) + 1;
    parallel_for(pieces.size() * c.in, 1 + kGrainTaps / work, [&](int64_t first, int64_t last) {
      std::optional<Cells<T>> cells;
      std::vector<T> weights(static_cast<size_t>(copies() * c.taps()));
      for (int64_t task = first, made = 0; task < last; ++task) {
        const int64_t piece = task / c.in, channel = task % c.in;
        if (!cells || !pieces.alike(piece, made))
          cells.emplace(pieces.flat(made = piece), copies());
        auto go = [&]<class V>() __attribute__((always_inline)) {
          planes<V>(*cells, pieces.first_image(piece), channel, weights.data());
        };
        with_vectors<T>(go);
      }
    });
  }
};

/// sums[k] = sum over q < n of x[q + at[k]] * y[q], in lanes as in LaneSum. REQUIRES: y is 0 from n
/// to the next multiple of kSumLanes.
template <class V, int kTaps, class T>
[[gnu::always_inline]] inline void dot_taps(int64_t n, const T* x, const int64_t* at, const T* y,
                                            T* sums) {
  constexpr int kLanes = sizeof(V) / sizeof(T), kVectors = kSumLanes / kLanes;
  V sum[kTaps][kVectors];
  const T* from[kTaps];
#pragma GCC unroll 16
  for (int k = 0; k < kTaps; ++k) {
    from[k] = x + at[k];
#pragma GCC unroll 10
    for (int v = 0; v < kVectors; ++v) sum[k][v] = V{};
  }
  for (int64_t q = 0; q < n; q += kSumLanes) {
    V factor[kVectors];
#pragma GCC unroll 10
    for (int v = 0; v < kVectors; ++v) load(factor[v], y + q + v * kLanes);
#pragma GCC unroll 16
    for (int k = 0; k < kTaps; ++k)
#pragma GCC unroll 10
      for (int v = 0; v < kVectors; ++v) {
        V cells;
        load(cells, from[k] + q + v * kLanes);
        sum[k][v] += cells * factor[v];
      }
  }
  for (int k = 0; k < kTaps; ++k) {
    LaneSum<T> all;
    for (int v = 0; v < kVectors; ++v) store(all.lane + v * kLanes, sum[k][v]);
    sums[k] = all.total();
  }
}

/// The same for up to kTaps taps.
template <class V, int kTaps, class T>
[[gnu::always_inline]] inline void dot_few_taps(int64_t n, const T* x, const int64_t* at,
                                                int64_t taps, const T* y, T* sums) {
  if (taps == kTaps) return dot_taps<V, kTaps>(n, x, at, y, sums);
  if constexpr (kTaps > 1) dot_few_taps<V, kTaps - 1>(n, x, at, taps, y, sums);
}

/// As dot_taps for tap k of the kernel, but reads the planes in memory. Leaves out cells that are
/// padding or lie between rows: there a product of 0 and an infinity or NaN would be NaN.
template <class T>
T exact_dot(const Conv& c, const Flat& f, int64_t k, const T* x, const T* dy) {
  const int64_t area = c.kernel[1] * c.kernel[2];
  const int64_t tap[] = {k / area, k % area / c.kernel[2], k % c.kernel[2]};
  const std::array<FlatRun, 3>& run = f.y[0].runs;
  T sum = 0;
  auto add = [&](int64_t image, const int64_t(&cell)[3]) {
    int64_t from = 0, to = 0;
    for (size_t a = 0; a < 3; ++a) {
      const int64_t output = run[a].first + cell[a];
      const int64_t element = output * c.stride[a] - c.padding[a] + tap[a] * c.dilation[a];
      if (element < 0 || element >= c.size[a]) return;
      from = from * c.size[a] + element;
      to = to * c.out_size[a] + output;
    }
    sum += x[image * c.in * c.plane() + from] * dy[image * c.out * c.out_plane() + to];
  };
  for (int64_t image = 0; image < f.images; ++image)
    for (int64_t i = 0; i < run[0].end; ++i)
      for (int64_t j = 0; j < run[1].end; ++j)
        for (int64_t l = 0; l < run[2].end; ++l) add(image, {i, j, l});
  return sum;
}

/// The gradient by w. Sums over a piece in T, and the pieces' sums in double.
template <class T>
struct DepthwiseWeights {
  const Conv& c;
  const T *x, *dy;

  /// Adds the gradient of the images from `image` on to dw (out_group, taps). `sums` is working
  /// memory for the taps.
  template <class V>
  [[gnu::always_inline]] inline void add(const Cells<T>& cells, int64_t image, int64_t channel,
                                         T* sums, double* dw) const {
    constexpr int kVectors = kSumLanes * sizeof(T) / sizeof(V);
    constexpr int kTaps = std::max(1, 12 / kVectors);
    const Flat& f = cells.flat;
    const Flat::Output& out = f.y[0];
    const int64_t taps = std::ssize(out.at), groups = ceil_div(taps, kTaps);
    const T* from = x + (image * c.in + channel) * c.plane();
    copy_into_cells(f, Distances(c.in, c.size), from, cells.x.data());
    for (int64_t i = 0; i < c.out_group(); ++i, dw += c.taps()) {
      const T* d = dy + (image * c.out + channel * c.out_group() + i) * c.out_plane();
      copy_in(f, out.runs.data(), f.y_step.data(), Distances(c.out, c.out_size), d, cells.y.data());
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t begin = g * taps / groups, end = (g + 1) * taps / groups;
        dot_few_taps<V, kTaps>(f.outputs, cells.x.data(), out.at.data() + begin, end - begin,
                               cells.y.data(), sums + begin);
      }
      for (int64_t k = 0; k < taps; ++k) {
        const int64_t tap = out.index[static_cast<size_t>(k)];
        if (!std::isfinite(sums[k])) sums[k] = exact_dot(c, f, tap, from, d);
        dw[tap] += static_cast<double>(sums[k]);
      }
    }
  }

  /// Computes dw (out, taps) of part `part` of the pieces, for some channels. Loops over channels
  /// inside each piece, since the channels of an image are neighbours in memory.
  void add_part(const FlatPieces& pieces, int64_t part, int64_t parts, int64_t first_channel,
                int64_t last_channel, double* dw) const {
    std::optional<Cells<T>> cells;
    std::vector<T> sums(static_cast<size_t>(c.taps()));
    const int64_t weights = c.out_group() * c.taps();
    std::fill(dw + first_channel * weights, dw + last_channel * weights, 0.0);
    int64_t piece = part * pieces.size() / parts, made = piece;
    for (; piece < (part + 1) * pieces.size() / parts; ++piece) {
      if (!cells || !pieces.alike(piece, made)) cells.emplace(pieces.flat(made = piece), 1);
      auto go = [&]<class V>() __attribute__((always_inline)) {
        for (int64_t channel = first_channel; channel < last_channel; ++channel)
          add<V>(*cells, pieces.first_image(piece), channel, sums.data(), dw + channel * weights);
      };
      with_vectors<T>(go);
    }
  }

  void run(T* dw) const {
    const int64_t size = c.out * c.taps();
    if (c.batch == 0 || size == 0)
      return parallel_for(size, 1 << 14, [&](int64_t first, int64_t last) {
        std::fill(dw + first, dw + last, T(0));
      });
    constexpr int64_t kTasks = 64;  // enough for 64 threads
    const FlatPieces pieces(c, FlatWay::forward, 1, 1024);
    const int64_t parts = std::min(pieces.size(), ceil_div(kTasks, c.in));
    Scratch<double> partial(parts * size);
    const int64_t work = c.work() / (parts * c.in) + 1;
    parallel_for(parts * c.in, 1 + kGrainTaps / work, [&](int64_t first, int64_t last) {
      for (int64_t end; first < last; first = end) {
        end = std::min(last, (first / c.in + 1) * c.in);
        add_part(pieces, first / c.in, parts, first % c.in, (end - 1) % c.in + 1,
                 partial.data() + first / c.in * size);
      }
    });
    parallel_for(size, 1 << 12, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        double sum = 0;
        for (int64_t part = 0; part < parts; ++part) sum += partial.data()[part * size + i];
        dw[i] = static_cast<T>(sum);
      }
    });
  }
};

}  // namespace

template <class T>
void conv_depthwise(const Conv& c, const T* x, const T* w, const T* bias, T* y) {
  Depthwise<T>{c, FlatWay::forward, x, w, bias, y}.run();
}

template <class T>
void input_grad_depthwise(const Conv& c, const T* dy, const T* w, T* dx) {
  if (c.plane() == 0) return;
  bool skips = false;  // elements that no window reads
  for (size_t i = 0; i < 3; ++i) skips |= c.stride[i] > 1;
  if (skips)
    parallel_for(c.batch * c.in, 1 + (1 << 14) / c.plane(), [&](int64_t first, int64_t last) {
      std::fill(dx + first * c.plane(), dx + last * c.plane(), T(0));
    });
  Depthwise<T>{c, FlatWay::input_grad, dy, w, nullptr, dx}.run();
}

template <class T>
void weight_grad_depthwise(const Conv& c, const T* x, const T* dy, T* dw) {
  DepthwiseWeights<T>{c, x, dy}.run(dw);
}

template void conv_depthwise(const Conv&, const float*, const float*, const float*, float*);
template void conv_depthwise(const Conv&, const double*, const double*, const double*, double*);
template void input_grad_depthwise(const Conv&, const float*, const float*, float*);
template void input_grad_depthwise(const Conv&, const double*, const double*, double*);
template void weight_grad_depthwise(const Conv&, const float*, const float*, float*);
template void weight_grad_depthwise(const Conv&, const double*, const double*, double*);

}  // namespace tern::kernels
