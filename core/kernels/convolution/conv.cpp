// Chooses among the methods of a convolution. Also holds the method for f64 and for products by
// BLAS: for some output rows of one image, it writes the elements that each output reads to the
// columns of a matrix in memory.
//   columns (in * taps, rows * out_width);   y = W columns,  dcolumns = W^T dy,  dW = dy columns^T
#include "tern/core/kernels/convolution/conv.h"

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/flops.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/products.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/convolution/conv_depthwise.h"
#include "tern/core/kernels/convolution/conv_products.h"
#include "tern/core/kernels/convolution/conv_taps.h"
#include "tern/core/kernels/products/gemm.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr int64_t kTasks = 64;                     // enough for 64 threads
constexpr int64_t kMaxColumns = int64_t{1} << 17;  // elements per block of columns: fits the cache
constexpr int64_t kMinWidth = 256;  // columns per block, at least: else packing weights costs more

/// Some channels of a group for some output rows of one image.
struct Block {
  int64_t first_channel, channels;  // counted over all groups
  int64_t first_row, rows;
};

/// The number of output rows to compute together.
int64_t rows_per_block(const Conv& c, int64_t channels) {
  int64_t width = std::max(kMinWidth, kMaxColumns / std::max<int64_t>(channels * c.taps(), 1));
  return std::clamp<int64_t>(width / std::max<int64_t>(c.out_width(), 1), 1,
                             std::max<int64_t>(c.out_rows(), 1));
}

template <class T>
void fill_columns(const Conv& c, const T* x, const Block& block, T* columns) {
  const int64_t width = c.out_width(), stride = c.stride[2], area = c.kernel[1] * c.kernel[2];
  for (int64_t k = 0; k < block.channels * c.taps(); ++k) {
    const T* plane = x + (block.first_channel + k / c.taps()) * c.plane();
    const int64_t tap = k % c.taps();
    const int64_t kd = tap / area, kh = tap % area / c.kernel[2], kw = tap % c.kernel[2];
    for (int64_t r = 0; r < block.rows; ++r, columns += width) {
      const Tap t = tap_at(c, block.first_row + r, kd, kh, kw);
      if (t.row < 0) {
        std::fill(columns, columns + width, T(0));
        continue;
      }
      const T* from = plane + t.row * c.width() + t.first;
      std::fill(columns, columns + t.begin, T(0));
      if (stride == 1)
        std::copy(from + t.begin, from + t.end, columns + t.begin);
      else
        for (int64_t j = t.begin; j < t.end; ++j) columns[j] = from[j * stride];
      std::fill(columns + t.end, columns + width, T(0));
    }
  }
}

/// Adds columns back to the elements that fill_columns read.
template <class T>
void add_columns(const Conv& c, const T* columns, const Block& block, T* x) {
  const int64_t width = c.out_width(), stride = c.stride[2], area = c.kernel[1] * c.kernel[2];
  for (int64_t k = 0; k < block.channels * c.taps(); ++k) {
    T* plane = x + (block.first_channel + k / c.taps()) * c.plane();
    const int64_t tap = k % c.taps();
    const int64_t kd = tap / area, kh = tap % area / c.kernel[2], kw = tap % c.kernel[2];
    for (int64_t r = 0; r < block.rows; ++r, columns += width) {
      const Tap t = tap_at(c, block.first_row + r, kd, kh, kw);
      if (t.row < 0) continue;
      T* to = plane + t.row * c.width() + t.first;
      for (int64_t j = t.begin; j < t.end; ++j) to[j * stride] += columns[j];
    }
  }
}

/// Calls fn(first, count) for parts of `step` elements that cover [0, n).
template <class Fn>
void each_piece(int64_t n, int64_t step, Fn fn) {
  for (int64_t at = 0; at < n; at += step) fn(at, std::min(step, n - at));
}

template <class T>
void conv_by_products(const Conv& c, const T* x, const T* w, const T* bias, T* y) {
  const int64_t rows = rows_per_block(c, c.in_group()), pieces = ceil_div(c.out_rows(), rows);
  const int64_t k = c.in_group() * c.taps(), m = c.out_group();
  parallel_blocks(c.batch * c.groups * pieces, c.work(), [&](int64_t task) {
    const int64_t image = task / pieces / c.groups, group = task / pieces % c.groups;
    const int64_t first = task % pieces * rows;
    const Block block{group * c.in_group(), c.in_group(), first,
                      std::min(rows, c.out_rows() - first)};
    const int64_t n = block.rows * c.out_width();
    Scratch<T> columns(k * n);
    fill_columns(c, x + image * c.in * c.plane(), block, columns.data());
    Gemm g{m, n, k, {k, 1}, {n, 1}, {c.out_plane(), 1}, {}};
    T* to = y + (image * c.out + group * m) * c.out_plane() + first * c.out_width();
    gemm<T>(g, w + group * m * k, columns.data(), to);
    if (!bias) return;
    for (int64_t o = 0; o < m; ++o)
      simd([=, row = to + o * c.out_plane(), b = bias[group * m + o]] {
        for (int64_t j = 0; j < n; ++j) row[j] += b;
      });
  });
}

/// The largest number of parts of a group's channels that have enough columns for a fast product.
int64_t most_parts(const Conv& c) {
  constexpr int64_t kLeastColumns = 128;
  return std::clamp<int64_t>(c.in_group() * c.taps() / kLeastColumns, 1,
                             std::max<int64_t>(c.in_group(), 1));
}

template <class T>
void input_grad_by_products(const Conv& c, const T* dy, const T* w, T* dx) {
  const int64_t wanted = ceil_div(kTasks, std::max<int64_t>(c.batch, 1) * c.groups);
  const int64_t parts = std::clamp<int64_t>(wanted, 1, most_parts(c));
  const int64_t step = ceil_div(c.in_group(), parts), m = c.out_group();
  parallel_blocks(c.batch * c.groups * parts, c.work(), [&](int64_t task) {
    const int64_t image = task / parts / c.groups, group = task / parts % c.groups;
    const int64_t first = task % parts * step;  // channel within the group
    const int64_t channels = std::min(step, c.in_group() - first);
    if (channels <= 0) return;
    T* to = dx + image * c.in * c.plane();
    const int64_t channel = group * c.in_group() + first;
    std::fill(to + channel * c.plane(), to + (channel + channels) * c.plane(), T(0));
    const int64_t rows = rows_per_block(c, channels), k = channels * c.taps();
    Scratch<T> columns(k * rows * c.out_width());
    each_piece(c.out_rows(), rows, [&](int64_t row, int64_t count) {
      const int64_t n = count * c.out_width();
      Gemm g{k, n, m, {1, c.in_group() * c.taps()}, {c.out_plane(), 1}, {n, 1}, {}};
      gemm<T>(g, w + group * m * c.in_group() * c.taps() + first * c.taps(),
              dy + (image * c.out + group * m) * c.out_plane() + row * c.out_width(),
              columns.data());
      add_columns(c, columns.data(), {channel, channels, row, count}, to);
    });
  });
}

/// The division of the weight gradient: into parts of a group's channels, and into chunks of
/// images, whose sums are added last.
struct WeightTasks {
  int64_t parts, step;     // number of parts, channels per part
  int64_t chunks, images;  // number of chunks, images per chunk

  explicit WeightTasks(const Conv& c) {
    parts = std::min(most_parts(c), ceil_div(kTasks, c.groups));
    step = ceil_div(c.in_group(), parts);
    chunks =
        std::clamp<int64_t>(ceil_div(kTasks, parts * c.groups), 1, std::max<int64_t>(c.batch, 1));
    images = ceil_div(c.batch, chunks);
  }
};

template <class T>
void weight_grad_by_products(const Conv& c, const T* x, const T* dy, T* dw) {
  const WeightTasks tasks(c);
  const int64_t m = c.out_group(), row = c.in_group() * c.taps(), size = c.out * row;
  Scratch<T> partial((tasks.chunks - 1) * size);
  parallel_blocks(tasks.chunks * c.groups * tasks.parts, c.work(), [&](int64_t task) {
    const int64_t part = task % tasks.parts, group = task / tasks.parts % c.groups;
    const int64_t chunk = task / tasks.parts / c.groups, first = part * tasks.step;
    const int64_t channels = std::min(tasks.step, c.in_group() - first);
    if (channels <= 0) return;
    const int64_t rows = rows_per_block(c, channels), k = channels * c.taps();
    Scratch<T> columns(k * rows * c.out_width());
    T* to = (chunk == 0 ? dw : partial.data() + (chunk - 1) * size) + group * m * row +
            first * c.taps();
    T beta = 0;
    auto add = [&](int64_t image, int64_t out_row, int64_t count) {
      const int64_t n = count * c.out_width();
      fill_columns(c, x + image * c.in * c.plane(),
                   {group * c.in_group() + first, channels, out_row, count}, columns.data());
      Gemm g{m, k, n, {c.out_plane(), 1}, {1, n}, {row, 1}, {}};
      gemm<T>(g, dy + (image * c.out + group * m) * c.out_plane() + out_row * c.out_width(),
              columns.data(), to, beta);
      beta = 1;
    };
    const int64_t last = std::min(c.batch, (chunk + 1) * tasks.images);
    for (int64_t image = chunk * tasks.images; image < last; ++image)
      each_piece(c.out_rows(), rows, [&](int64_t r, int64_t count) { add(image, r, count); });
    if (beta == 1) return;
    for (int64_t o = 0; o < m; ++o) std::fill(to + o * row, to + o * row + k, T(0));
  });
  parallel_for(tasks.chunks > 1 ? size : 0, 1 << 11, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = 1; chunk < tasks.chunks; ++chunk)
      simd([=, from = partial.data() + (chunk - 1) * size] {
        for (int64_t i = begin; i < end; ++i) dw[i] += from[i];
      });
  });
}

/// Whether our own tiles compute convolutions of T.
template <class T>
bool by_tiles() {
  return std::is_same_v<T, float> &&
         (matmul_precision() == MatmulPrecision::bf16 || !products_by_blas());
}

/// Whether this is a signal of one channel, as in the first layer of a model that reads sound. The
/// tiles can take its windows in place of conv_depthwise.
bool is_signal(const Conv& c) {
  constexpr int64_t kLeastOutputs = 16;
  return c.in == 1 && c.size[0] == 1 && c.size[1] == 1 && c.out >= kLeastOutputs && c.work() > 0 &&
         !products_by_blas() && matmul_precision() == MatmulPrecision::f32;
}

/// Calls fn(plane of x, its rows of the columns) for every channel of every image.
template <class T, class U, class Fn>
void each_channel(const Conv& c, T* x, U* columns, Fn fn) {
  parallel_blocks(c.batch * c.in, c.batch * c.in * c.taps() * c.out_plane() * 10, [&](int64_t i) {
    fn(x + i * c.plane(), columns + i * c.taps() * c.out_plane());
  });
}

}  // namespace

template <class T>
void gather_columns(const Conv& c, const T* x, T* columns) {
  each_channel(c, x, columns, [&](const T* plane, T* rows) {
    fill_columns(c, plane, {0, 1, 0, c.out_rows()}, rows);
  });
}

template <class T>
void add_columns(const Conv& c, const T* columns, T* x) {
  each_channel(c, x, columns, [&](T* plane, const T* rows) {
    std::fill(plane, plane + c.plane(), T(0));
    add_columns(c, rows, {0, 1, 0, c.out_rows()}, plane);
  });
}

template <class T>
void conv(const Conv& c, const T* x, const T* w, const T* bias, T* y) {
  tern::detail::CountFlops counted(2 * c.work());
  constexpr int64_t kFarApart = 32;  // from here on conv_depthwise moves more than it multiplies
  if constexpr (std::is_same_v<T, float>)
    if (is_signal(c) && c.stride[2] >= kFarApart) return conv_products(c, x, w, bias, y);
  if (c.depthwise()) return conv_depthwise(c, x, w, bias, y);
  if constexpr (std::is_same_v<T, float>)
    if (by_tiles<T>() && c.work() > 0) return conv_products(c, x, w, bias, y);
  conv_by_products(c, x, w, bias, y);
}

template <class T>
void conv_input_grad(const Conv& c, const T* dy, const T* w, T* dx) {
  tern::detail::CountFlops counted(2 * c.work());
  if (c.depthwise()) return input_grad_depthwise(c, dy, w, dx);
  if constexpr (std::is_same_v<T, float>)
    if (by_tiles<T>() && c.work() > 0) return conv_input_products(c, dy, w, dx);
  input_grad_by_products(c, dy, w, dx);
}

template <class T>
void conv_weight_grad(const Conv& c, Elements<T> x, const T* dy, T* dw) {
  tern::detail::CountFlops counted(2 * c.work());
  if constexpr (std::is_same_v<T, float>)
    if (is_signal(c)) return conv_weight_products(c, x, dy, dw);
  if (c.depthwise()) return weight_grad_depthwise(c, numbers(x), dy, dw);
  if constexpr (std::is_same_v<T, float>)
    if (by_tiles<T>() && c.work() > 0) return conv_weight_products(c, x, dy, dw);
  weight_grad_by_products(c, numbers(x), dy, dw);
}

template void conv(const Conv&, const float*, const float*, const float*, float*);
template void conv(const Conv&, const double*, const double*, const double*, double*);
template void gather_columns(const Conv&, const float*, float*);
template void gather_columns(const Conv&, const double*, double*);
template void add_columns(const Conv&, const float*, float*);
template void add_columns(const Conv&, const double*, double*);
template void conv_input_grad(const Conv&, const float*, const float*, float*);
template void conv_input_grad(const Conv&, const double*, const double*, double*);
template void conv_weight_grad(const Conv&, Factor, const float*, float*);
template void conv_weight_grad(const Conv&, const double*, const double*, double*);

}  // namespace tern::kernels
