// Winograd's method for 3 x 3 convolutions. It computes outputs in squares of 2 x 2, each from a
// square of 4 x 4 inputs d and the 3 x 3 weights g of a channel:
//   Y = A^T [ sum over channels (G g G^T) * (B^T d B) ] A   (* by elements)
// The sums are 16 matrix products, one per element of a square: weights (out, in) x squares
// (in, squares).
#include "tern/core/kernels/convolution/conv_winograd.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/precision.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/bf16/bf16_elements.h"
#include "tern/core/kernels/bf16/gemm_bf16.h"
#include "tern/core/kernels/convolution/conv_windows.h"
#include "tern/core/kernels/products/gemm_tiles.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

constexpr int64_t kSquares = 128;    // squares per task
constexpr int64_t kElements = 16;    // elements of a square of inputs, and of transformed weights
constexpr int64_t kTilesAtOnce = 4;  // row tiles per pass over the squares
constexpr int64_t kLine = 16;        // numbers in a line of the caches

bool in_bf16() { return matmul_precision() == MatmulPrecision::bf16; }

const TileSet& tiles_in_use() { return in_bf16() ? bf16_tiles() : f32_tiles(); }

/// The windows of x. Backward passes may find x already rounded to bf16 (core/base/precision.h): it
/// has to be the same number before its squares are transformed.
Windows squares_in(const Conv& squares, Windows::Order order, Factor x) {
  return {squares, order, x, 0, /*rounded=*/in_bf16()};
}

/// The weights of a convolution. The 3 x 3 weights of output i and input j begin at data + i * row
/// + j * col. If `turned`, their order is reversed.
struct Weights {
  const float* data;
  int64_t row, col;
  bool turned;
};

/// u[e * step + j] = element e of G g G^T, with tap t of filter j at g[t * tap + j], for j < n.
[[gnu::always_inline]] inline void transform_weights(const float* g, int64_t tap, float* u,
                                                     int64_t step, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    float half[4][3];
#pragma GCC unroll 3
    for (int c = 0; c < 3; ++c) {
      const float a = g[c * tap + j], b = g[(3 + c) * tap + j], d = g[(6 + c) * tap + j];
      half[0][c] = a;
      half[1][c] = .5f * (a + d + b);
      half[2][c] = .5f * (a + d - b);
      half[3][c] = d;
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const float a = half[r][0], b = half[r][1], d = half[r][2];
      u[(4 * r) * step + j] = a;
      u[(4 * r + 1) * step + j] = .5f * (a + d + b);
      u[(4 * r + 2) * step + j] = .5f * (a + d - b);
      u[(4 * r + 3) * step + j] = d;
    }
  }
}

/// to[e * to_step + j] = element e of B^T d B, with element e of square j at d[e * step + j].
[[gnu::always_inline]] inline void transform_squares(const float* d, int64_t step, float* to,
                                                     int64_t to_step, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    float half[4][4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const float a = d[c * step + j], b = d[(4 + c) * step + j];
      const float e = d[(8 + c) * step + j], f = d[(12 + c) * step + j];
      half[0][c] = a - e;
      half[1][c] = b + e;
      half[2][c] = e - b;
      half[3][c] = b - f;
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const float a = half[r][0], b = half[r][1], e = half[r][2], f = half[r][3];
      to[(4 * r) * to_step + j] = a - e;
      to[(4 * r + 1) * to_step + j] = b + e;
      to[(4 * r + 2) * to_step + j] = e - b;
      to[(4 * r + 3) * to_step + j] = b - f;
    }
  }
}

/// y[k * kSquares + j] = output k of A^T m A + bias, with element e of square j at m[e * step + j].
[[gnu::always_inline]] inline void transform_outputs(const float* m, int64_t step, float bias,
                                                     float* y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    float half[2][4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const float a = m[c * step + j], b = m[(4 + c) * step + j];
      const float e = m[(8 + c) * step + j], f = m[(12 + c) * step + j];
      half[0][c] = a + b + e;
      half[1][c] = b - e - f;
    }
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      const float a = half[r][0], b = half[r][1], e = half[r][2], f = half[r][3];
      y[(2 * r) * kSquares + j] = (a + b + e) + bias;
      y[(2 * r + 1) * kSquares + j] = (b - e - f) + bias;
    }
  }
}

/// to[e * to_step + j] = element e of H g H^T, with element t of square j (2 x 2) at g[t * step +
/// j]; H is G for two weights.
[[gnu::always_inline]] inline void transform_gradients(const float* g, int64_t step, float* to,
                                                       int64_t to_step, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    float half[4][2];
#pragma GCC unroll 2
    for (int c = 0; c < 2; ++c) {
      const float a = g[c * step + j], b = g[(2 + c) * step + j];
      half[0][c] = a;
      half[1][c] = .5f * (a + b);
      half[2][c] = .5f * (a - b);
      half[3][c] = b;
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) {
      const float a = half[r][0], b = half[r][1];
      to[(4 * r) * to_step + j] = a;
      to[(4 * r + 1) * to_step + j] = .5f * (a + b);
      to[(4 * r + 2) * to_step + j] = .5f * (a - b);
      to[(4 * r + 3) * to_step + j] = b;
    }
  }
}

/// w[t * w_step + j] = tap t of the gradient, from its 16 elements at m[e * step + j].
[[gnu::always_inline]] inline void transform_taps(const float* m, int64_t step, float* w,
                                                  int64_t w_step, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) {
    float half[3][4];
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const float a = m[c * step + j], b = m[(4 + c) * step + j];
      const float e = m[(8 + c) * step + j], f = m[(12 + c) * step + j];
      half[0][c] = a + b + e;
      half[1][c] = b - e;
      half[2][c] = b + e - f;
    }
#pragma GCC unroll 3
    for (int r = 0; r < 3; ++r) {
      const float a = half[r][0], b = half[r][1], e = half[r][2], f = half[r][3];
      w[(3 * r) * w_step + j] = a + b + e;
      w[(3 * r + 1) * w_step + j] = b - e;
      w[(3 * r + 2) * w_step + j] = b + e - f;
    }
  }
}

/// A convolution whose windows are the squares: 4 x 4 elements, two apart.
Conv squares_of(const Conv& c) {
  Conv s = c;
  s.kernel = {1, 4, 4};
  s.stride = {1, 2, 2};
  s.out_size = {1, ceil_div(c.out_size[1], int64_t{2}), ceil_div(c.out_size[2], int64_t{2})};
  return s;
}

class Forward3x3 {
 public:
  /// y (batch, out, out_plane) by windows of x (batch, in, plane).
  Forward3x3(const Conv& c, Factor x, const Weights& w, const float* bias, float* y)
      : c_(c),
        squares_(squares_of(c)),
        w_(w),
        bias_(bias),
        y_(y),
        tiles_(tiles_in_use()),
        row_tiles_(ceil_div(c.out, tiles_.rows)),
        depths_(ceil_div(c.in, tiles_.max_depth)),
        places_(tiles_.padded(c.in)),
        packed_((kElements * c.out * places_ + tiles_.slack) * tiles_.bytes),
        windows_(squares_in(squares_, Windows::Order::planes, x)) {}

  void run() {
    pack_weights();
    const int64_t all = c_.batch * squares_.out_plane(), chunks = ceil_div(all, kSquares);
    const int64_t size = transformed_size(), threads = num_threads();
    auto count = [=](int64_t chunk) { return std::min(kSquares, all - chunk * kSquares); };
    // If whole chunks would leave threads idle, all squares are transformed first, and the products
    // are cut by output channels as well.
    if (chunks >= kMostKept * threads || 10 * threads * ceil_div(chunks, threads) <= 11 * chunks) {
      parallel_blocks(chunks, c_.work(), [&](int64_t chunk) {
        Scratch<std::byte> v(size);
        transform(chunk * kSquares, count(chunk), 0, c_.in, v.data());
        for (int64_t tile = 0; tile < row_tiles_; tile += kTilesAtOnce)
          multiply_tiles(chunk * kSquares, count(chunk), tile, kTilesAtOnce, v.data());
      });
      return;
    }
    const int64_t parts = ceil_div(c_.in, kPart);
    Scratch<std::byte> v(chunks * size);
    parallel_blocks(chunks * parts, c_.work(), [&](int64_t task) {
      const int64_t chunk = task / parts, channel = task % parts * kPart;
      transform(chunk * kSquares, count(chunk), channel, std::min(channel + kPart, c_.in),
                v.data() + chunk * size);
    });
    const int64_t tiles = tiles_of_task(chunks), groups = ceil_div(row_tiles_, tiles);
    parallel_blocks(chunks * groups, c_.work(), [&](int64_t task) {
      const int64_t chunk = task / groups;
      multiply_tiles(chunk * kSquares, count(chunk), task % groups * tiles, tiles,
                     v.data() + chunk * size);
    });
  }

 private:
  /// The size in numbers of a strip for one element of the squares. The extra line avoids strips
  /// that are a multiple of 4 KB apart, which would displace each other in the first cache.
  int64_t element_size() const { return places_ * tiles_.columns + 4 * kLine / tiles_.bytes; }
  /// The size in bytes of a chunk of transformed squares.
  int64_t transformed_size() const {
    return ceil_div(kSquares, tiles_.columns) * kElements * element_size() * tiles_.bytes;
  }
  int64_t row(int64_t tile) const { return tiles_.first_row(c_.out, row_tiles_, tile); }
  int64_t depth(int64_t d) const { return tiles_.first_depth(c_.in, depths_, d); }
  /// The packed weights of a tile's rows for one element, one block of k after the other.
  std::byte* packed(int64_t row, int64_t rows, int64_t element) const {
    return tiles_.at(packed_.data(), (row * kElements + element * rows) * places_);
  }

  void pack_weights() const {
    constexpr int64_t kTaps = 9;
    parallel_blocks(row_tiles_, 20 * kElements * c_.out * c_.in, [&](int64_t tile) {
      const int64_t rows = row(tile + 1) - row(tile), in = c_.in, step = rows * in + kLine;
      Scratch<float> transformed(kElements * step);
      alignas(64) float taps[kTaps * kLine] = {}, elements[kElements * kLine];
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t j = 0; j < in; j += kLine) {
          const int64_t count = std::min<int64_t>(kLine, in - j);
          const float* g = w_.data + (row(tile) + r) * w_.row + j * w_.col;
          for (int64_t i = 0; i < count; ++i, g += w_.col)
#pragma GCC unroll 9
            for (int64_t t = 0; t < kTaps; ++t) taps[t * kLine + i] = g[t];
          // In reverse order the last tap comes first.
          simd([from = w_.turned ? &taps[(kTaps - 1) * kLine] : &taps[0],
                tap = w_.turned ? -kLine : kLine,
                to = &elements[0]] { transform_weights(from, tap, to, kLine, kLine); });
          for (int64_t e = 0; e < kElements; ++e)
            std::copy_n(elements + e * kLine, count, transformed.data() + e * step + r * in + j);
        }
      // Packs into a copy: packing writes beyond the end, where another thread's tile may be.
      for (int64_t e = 0; e < kElements; ++e)
        for (int64_t d = 0; d < depths_; ++d) {
          const int64_t first = depth(d), count = depth(d + 1) - first;
          const int64_t size = rows * tiles_.padded(count) * tiles_.bytes;
          Scratch<std::byte> block(size + tiles_.slack * tiles_.bytes);
          tiles_.pack_a(transformed.data() + e * step + first, in, true, rows, count, block.data());
          std::copy_n(block.data(), size, tiles_.at(packed(row(tile), rows, e), rows * first));
        }
    });
  }

  /// The row tiles that a task should compute, so that all threads end soon.
  int64_t tiles_of_task(int64_t chunks) const {
    constexpr double kReading = 0.15;  // of the squares, in units of the time of a tile
    int64_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (int64_t tiles = kTilesAtOnce; tiles > 0; --tiles) {
      const int64_t tasks = chunks * ceil_div(row_tiles_, tiles);
      const double time = static_cast<double>(ceil_div(tasks, int64_t{num_threads()})) *
                          (static_cast<double>(tiles) + kReading);
      if (time < least) least = time, best = tiles;
    }
    return best;
  }

  /// Computes squares first, ..., first + count - 1, which v has, for up to `tiles` row tiles.
  void multiply_tiles(int64_t first, int64_t count, int64_t begin, int64_t tiles,
                      std::byte* v) const {
    const int64_t columns = tiles_.columns, strips = ceil_div(count, columns);
    const int64_t size = element_size();
    const int64_t sums_size = kTilesAtOnce * tiles_.rows * kSquares + kLine;
    Scratch<float> sums(kElements * sums_size);
    alignas(64) float outputs[4 * kSquares];
    const int64_t end = std::min(begin + tiles, row_tiles_);
    int64_t rows[kTilesAtOnce + 1];
    for (int64_t t = begin; t <= end; ++t) rows[t - begin] = row(t);
    std::optional<TileScope> scope(tiles_);
    for (int64_t e = 0; e < kElements; ++e)
      for (int64_t s = 0; s < strips; ++s)
        for (int64_t t = 0; t < end - begin; ++t)
          multiply(rows[t], rows[t + 1] - rows[t], e, tiles_.at(v, (s * kElements + e) * size),
                   sums.data() + e * sums_size + (rows[t] - rows[0]) * kSquares + s * columns);
    scope.reset();
    for (int64_t o = row(begin); o < row(end); ++o) {
      simd([=, m = sums.data() + (o - row(begin)) * kSquares, bias = bias_ ? bias_[o] : 0.f,
            y = &outputs[0]] { transform_outputs(m, sums_size, bias, y, count); });
      write(first, count, outputs, o);
    }
  }

  void multiply(int64_t row, int64_t rows, int64_t element, std::byte* strip, float* sums) const {
    std::byte* a = packed(row, rows, element);
    for (int64_t d = 0; d < depths_; ++d) {
      const int64_t first = depth(d), count = depth(d + 1) - first;
      tiles_.tile(rows, tiles_.columns, count, tiles_.at(a, rows * first),
                  tiles_.at(strip, first * tiles_.columns), tiles_.columns, sums, kSquares, d > 0);
    }
  }

  /// Transforms some channels of some squares: v[strip][element][channel][square], packed if tiles
  /// need it.
  void transform(int64_t first, int64_t count, int64_t first_channel, int64_t last_channel,
                 std::byte* v) const {
    static_assert(kBf16Group % kChannels == 0 && kPart % kBf16Group == 0);
    const int64_t columns = tiles_.columns, step = element_size();
    const int64_t at_once = tiles_.reads_b ? kChannels : kBf16Group;  // channels
    const int64_t room = at_once * columns + kLine;  // numbers of an element that are to be packed
    Scratch<float> to_pack(tiles_.reads_b ? 0 : kElements * room);
    for (int64_t c = first_channel; c < last_channel; c += at_once) {
      const int64_t channels = std::min(at_once, last_channel - c);
      Windows::Part part(windows_, c * kElements, channels * kElements, first, count);
      for (int64_t s = 0; s * columns < count; ++s) {
        part.choose(first + s * columns, std::min(columns, count - s * columns));
        std::byte* to = tiles_.at(v, s * kElements * step + c * columns);
        if (tiles_.reads_b) {
          transform_strip(part, c, channels, reinterpret_cast<float*>(to), step);
          continue;
        }
        for (int64_t i = 0; i < channels; i += kChannels)
          transform_strip(part, c + i, std::min(kChannels, channels - i),
                          to_pack.data() + i * columns, room);
        for (int64_t e = 0; e < kElements; ++e)
          tiles_.pack_b(to_pack.data() + e * room, columns, true, columns, channels,
                        tiles_.at(to, e * step));
      }
    }
  }

  /// Transforms the chosen squares of up to kChannels channels: to[element * step + channel *
  /// columns + square].
  void transform_strip(const Windows::Part& part, int64_t channel, int64_t channels, float* to,
                       int64_t step) const {
    alignas(64) float squares[kChannels * kElements * kMostColumns];
    const int64_t columns = tiles_.columns;
    part.copy(channel * kElements, channels * kElements, squares, columns);
    simd([=, from = &squares[0]] {
      for (int64_t i = 0; i < channels; ++i)
        transform_squares(from + i * kElements * columns, columns, to + i * columns, step, columns);
    });
  }

  void write(int64_t first, int64_t count, const float* outputs, int64_t channel) const {
    const int64_t wide = squares_.out_width(), plane = squares_.out_plane();
    for (int64_t i = 0; i < count;) {
      const int64_t at = (first + i) % plane, h = at / wide * 2, w = at % wide * 2;
      const int64_t run = std::min(wide - at % wide, count - i);
      float* y =
          y_ + ((first + i) / plane * c_.out + channel) * c_.out_plane() + h * c_.out_width() + w;
      const bool odd = w + 2 * run > c_.out_width();  // the last column is beyond the picture
      for (int64_t r = 0; r < 2 && h + r < c_.out_size[1]; ++r, y += c_.out_width())
        simd([=, even = outputs + 2 * r * kSquares + i] {
          const float* next = even + kSquares;
          const int64_t pairs = odd ? run - 1 : run;
          for (int64_t j = 0; j < pairs; ++j) {
            y[2 * j] = even[j];
            y[2 * j + 1] = next[j];
          }
          if (odd) y[2 * pairs] = even[pairs];
        });
      i += run;
    }
  }

  static constexpr int64_t kChannels = 16;  // that are copied together
  static constexpr int64_t kPart = 32;      // channels that a task transforms
  static constexpr int64_t kMostKept = 4;   // chunks of squares per thread that memory may hold
  static constexpr int64_t kMostColumns = 32;

  const Conv& c_;
  const Conv squares_;
  const Weights w_;
  const float* bias_;
  float* y_;
  const TileSet& tiles_;
  const int64_t row_tiles_, depths_;
  const int64_t places_;  // of k in packed operands
  Scratch<std::byte> packed_;
  const Windows windows_;
};

/// The same for the gradients of the outputs, whose squares are 2 x 2.
Conv gradient_squares_of(const Conv& c) {
  Conv s = squares_of(c);
  s.in = c.out;
  s.size = c.out_size;
  s.kernel = {1, 2, 2};
  s.padding = {0, 0, 0};
  return s;
}

/// The gradient by w: 16 products of transformed dy (out, squares) and transformed x (squares, in).
/// Their sums are transformed into 3 x 3 taps at the end.
class WeightSums3x3 {
 public:
  WeightSums3x3(const Conv& c, Factor x, const float* dy, int64_t first_block, int64_t last_block)
      : c_(c),
        tiles_(tiles_in_use()),
        squares_(squares_of(c)),
        gradients_(gradient_squares_of(c)),
        x_(squares_in(squares_, Windows::Order::pixels, x)),
        dy_(gradients_, Windows::Order::pixels, dy, 0),
        first_block_(first_block),
        channels_(std::min(c.in, last_block * kBlock) - first_block * kBlock),
        v_row_(ceil_div(channels_, kStrip) * kStrip),
        d_row_(std::min(ceil_div(c.out, kBlock) * kBlock, kOutputs)),
        v_size_(kTogether * v_row_ + kLine),
        d_size_(kTogether * d_row_ + kLine),
        m_size_(d_row_ * v_row_ + kLine),
        v_(kElements * v_size_),
        d_(kElements * d_size_),
        elements_(kElements * kStep),
        packed_((tiles_.rows * kTogether + tiles_.slack) * tiles_.bytes),
        strips_(tiles_.reads_b ? 0 : v_row_ * kTogether * tiles_.bytes),
        m_(kElements * m_size_) {}

  void run(int64_t first, int64_t last, float* to) {
    for (int64_t o = 0; o < c_.out; o += kOutputs) {
      const int64_t outputs = std::min(kOutputs, c_.out - o);
      for (int64_t at = first; at < last; at += kTogether) {
        const int64_t count = std::min(kTogether, last - at);
        transform<kElements>(x_, first_block_, channels_, at, count, v_.data(), v_row_, v_size_);
        transform<4>(dy_, o / kBlock, outputs, at, count, d_.data(), d_row_, d_size_);
        multiply(outputs, count, at > first);
      }
      for (int64_t i = 0; i < outputs; ++i) write(i, to + (o + i) * c_.in * kTaps);
    }
  }

 private:
  static constexpr int64_t kTaps = 9, kBlock = Windows::kChannels, kStrip = 32;
  static constexpr int64_t kOutputs = 128;  // channels of dy that are summed together
  static constexpr int64_t kTogether = 64;  // squares whose products are summed together
  static_assert(kOutputs % kBlock == 0 && kTogether % kBf16Group == 0);
  static constexpr int64_t kStep = kTogether * kBlock + kLine;  // size of an element in elements_

  /// Transforms some squares of some channels, from a block on:
  /// to[element * size + square * row + channel].
  template <int64_t kFrom>
  void transform(const Windows& from, int64_t first_block, int64_t channels, int64_t first,
                 int64_t count, float* to, int64_t row, int64_t size) const {
    constexpr int64_t kPerBlock = kBlock * kFrom;  // columns of the windows
    const int64_t column = first_block * kPerBlock;
    Windows::Part part(from, first, count, column, channels * kFrom);
    for (int64_t c = 0; c < channels; c += kBlock) {
      const int64_t width = std::min(kBlock, channels - c);
      for (int64_t t = 0; t < kFrom; ++t) {
        part.choose(column + c * kFrom + t * width, width);
        part.copy(first, count, elements_.data() + t * kStep, kBlock);
      }
      simd([=, d = elements_.data(), v = to + c] {
        for (int64_t i = 0; i < count; ++i)
          if constexpr (kFrom == 4)
            transform_gradients(d + i * kBlock, kStep, v + i * row, size, kBlock);
          else
            transform_squares(d + i * kBlock, kStep, v + i * row, size, kBlock);
      });
    }
  }

  void multiply(int64_t outputs, int64_t count, bool add) const {
    const int64_t tiles = ceil_div(outputs, tiles_.rows), columns = tiles_.columns;
    const TileScope scope(tiles_);
    for (int64_t e = 0; e < kElements; ++e) {
      const float* v = v_.data() + e * v_size_;
      auto strip = [&](int64_t j) { return tiles_.at(strips_.data(), j * kTogether); };
      for (int64_t j = 0; j < v_row_ && !tiles_.reads_b; j += columns)
        tiles_.pack_b(v + j, v_row_, true, columns, count, strip(j));
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t row = tiles_.first_row(outputs, tiles, t);
        const int64_t rows = tiles_.first_row(outputs, tiles, t + 1) - row;
        tiles_.pack_a(d_.data() + e * d_size_ + row, d_row_, false, rows, count, packed_.data());
        for (int64_t j = 0; j < v_row_; j += columns)
          tiles_.tile(rows, columns, count, packed_.data(),
                      tiles_.reads_b ? static_cast<const void*>(v + j) : strip(j), v_row_,
                      m_.data() + e * m_size_ + row * v_row_ + j, v_row_, add);
      }
    }
  }

  void write(int64_t output, float* to) const {
    for (int64_t c = 0; c < channels_; c += kBlock) {
      const int64_t width = std::min(kBlock, channels_ - c);
      simd([=, m = m_.data() + output * v_row_ + c, step = m_size_,
            w = to + (first_block_ * kBlock + c) * kTaps] {
        transform_taps(m, step, w, width, width);
      });
    }
  }

  const Conv& c_;
  const TileSet& tiles_;
  const Conv squares_, gradients_;
  const Windows x_, dy_;
  const int64_t first_block_, channels_;
  const int64_t v_row_, d_row_;             // numbers per square
  const int64_t v_size_, d_size_, m_size_;  // numbers per element, over all squares or outputs
  Scratch<float> v_, d_, elements_;
  Scratch<std::byte> packed_, strips_;  // a tile's rows, and all strips of an element
  Scratch<float> m_;
};

}  // namespace

bool winograd_takes(const Conv& c) {
  constexpr int64_t kLeastSquares = 64;
  const int64_t least_channels = in_bf16() ? 64 : 32;
  const Conv::Sizes kernel{1, 3, 3}, ones{1, 1, 1};
  if (!c.winograd || c.kernel != kernel || c.stride != ones || c.dilation != ones || c.groups != 1)
    return false;
  if (c.out_size[0] != 1 || c.in < least_channels || c.out < least_channels) return false;
  // Squares reach beyond a picture of odd size: enough of their outputs must be inside.
  const int64_t squares = squares_of(c).out_plane();
  return c.batch * squares >= kLeastSquares && 10 * c.out_plane() >= 27 * squares;
}

void conv_winograd(const Conv& c, Factor x, const float* w, const float* bias, float* y) {
  constexpr int64_t kTaps = 9;
  Forward3x3(c, x, {w, c.in * kTaps, kTaps, false}, bias, y).run();
}

void conv_input_winograd(const Conv& c, const float* dy, const float* w, float* dx) {
  constexpr int64_t kTaps = 9;
  Conv turned = c;
  std::swap(turned.in, turned.out);
  std::swap(turned.size, turned.out_size);
  for (size_t a = 1; a < 3; ++a) turned.padding[a] = c.kernel[a] - 1 - c.padding[a];
  Forward3x3(turned, dy, {w, kTaps, c.in * kTaps, true}, nullptr, dx).run();
}

int64_t winograd_squares(const Conv& c) { return c.batch * squares_of(c).out_plane(); }

void weight_panel_winograd(const Conv& c, Factor x, const float* dy, int64_t first_block,
                           int64_t last_block, int64_t first, int64_t last, float* to) {
  WeightSums3x3(c, x, dy, first_block, last_block).run(first, last, to);
}

}  // namespace tern::kernels
