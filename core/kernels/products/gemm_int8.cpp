// int8 products: quantisation, packing, and tiles of each way. Compiled without fused multiply-adds
// (-ffp-contract=off), so that all ways scale with the same bits.
#include "tern/core/kernels/products/gemm_int8.h"

#include <cstring>
#include <iterator>

#include "tern/core/base/cpu.h"
#include "tern/core/base/reduce.h"
#include "tern/core/base/simd.h"
#include "tern/core/kernels/products/tile_table.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace tern::kernels {
namespace {

constexpr int64_t kStripBytes = 4 * kStrip;  // four inputs of each output of a strip
constexpr int kMaxRows = 12;                 // per tile

/// The inputs and outputs of one tile. Four inputs of a row are 4 bytes of q.
struct Piece {
  int64_t quads;  ///< number of groups of four inputs
  const int8_t* q;
  int64_t q_stride;
  const int32_t* begin;
  const uint8_t* strip;  ///< (quads, 32, 4)
  int32_t* sums;         ///< (rows, 32)
};

using Int8Tile = void (*)(const Piece&);

template <int kRows>
void tile_plain(const Piece& p) {
  for (int r = 0; r < kRows; ++r) {
    // Unsigned, since intermediate sums may wrap around. The final sum does not.
    uint32_t sum[kStrip];
    for (uint32_t& s : sum) s = static_cast<uint32_t>(p.begin[r]);
    const int8_t* q = p.q + r * p.q_stride;
    const uint8_t* b = p.strip;
    for (int64_t i = 0; i < 4 * p.quads; i += 4, b += kStripBytes)
      for (int64_t j = 0; j < kStrip; ++j)
        sum[j] += static_cast<uint32_t>(q[i] * b[4 * j] + q[i + 1] * b[4 * j + 1] +
                                        q[i + 2] * b[4 * j + 2] + q[i + 3] * b[4 * j + 3]);
    std::memcpy(p.sums + r * kStrip, sum, sizeof(sum));
  }
}
constexpr std::array<Int8Tile, 1> kPlainTiles = {tile_plain<1>};

#if defined(__x86_64__)
[[gnu::always_inline]] inline int quad(const Piece& p, int r, int64_t i) {
  int four;
  std::memcpy(&four, p.q + r * p.q_stride + 4 * i, sizeof(four));
  return four;
}

template <int kRows>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512vnni")]] void tile_avx512_vnni(const Piece& p) {
  __m512i sum[kRows][2];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = _mm512_set1_epi32(p.begin[r]);
  const uint8_t* b = p.strip;
  for (int64_t i = 0; i < p.quads; ++i, b += kStripBytes) {
    const __m512i low = _mm512_loadu_si512(b), high = _mm512_loadu_si512(b + 64);
    if constexpr (kRows <= kMemoryBound) fetch_ahead(b), fetch_ahead(b + 64);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const __m512i a = _mm512_set1_epi32(quad(p, r, i));
      sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], low, a);
      sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], high, a);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    _mm512_storeu_si512(p.sums + r * kStrip, sum[r][0]);
    _mm512_storeu_si512(p.sums + r * kStrip + 16, sum[r][1]);
  }
}

template <int kRows>
[[gnu::target("avx2,avxvnni")]] void tile_avx_vnni(const Piece& p) {
  for (int64_t column = 0; column < kStrip; column += 16) {
    __m256i sum[kRows][2];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = _mm256_set1_epi32(p.begin[r]);
    const uint8_t* b = p.strip + 4 * column;
    for (int64_t i = 0; i < p.quads; ++i, b += kStripBytes) {
      const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b));
      const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 32));
      if constexpr (kRows <= kMemoryBound) fetch_ahead(b);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const __m256i a = _mm256_set1_epi32(quad(p, r, i));
        sum[r][0] = _mm256_dpbusd_avx_epi32(sum[r][0], low, a);
        sum[r][1] = _mm256_dpbusd_avx_epi32(sum[r][1], high, a);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      int32_t* to = p.sums + r * kStrip + column;
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), sum[r][0]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + 8), sum[r][1]);
    }
  }
}

/// Computes eight outputs per step, as two halves of four. Each output sums the products of inputs
/// 0, 1 and of 2, 3 separately, since vpmaddwd adds neighbours.
template <int kRows>
[[gnu::target("avx2")]] void tile_avx2(const Piece& p) {
  for (int64_t column = 0; column < kStrip; column += 8) {
    __m256i sum[kRows][2];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
    const uint8_t* b = p.strip + 4 * column;
    for (int64_t i = 0; i < p.quads; ++i, b += kStripBytes) {
      const __m256i low =
          _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b)));
      const __m256i high =
          _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(b + 16)));
      if constexpr (kRows <= kMemoryBound) fetch_ahead(b);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        const __m256i a = _mm256_cvtepi8_epi16(_mm_set1_epi32(quad(p, r, i)));
        sum[r][0] = _mm256_add_epi32(sum[r][0], _mm256_madd_epi16(low, a));
        sum[r][1] = _mm256_add_epi32(sum[r][1], _mm256_madd_epi16(high, a));
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      // hadd works within halves of 16 bytes: it gives outputs 0 1 4 5 2 3 6 7.
      const __m256i pairs = _mm256_permute4x64_epi64(_mm256_hadd_epi32(sum[r][0], sum[r][1]), 0xd8);
      const __m256i all = _mm256_add_epi32(pairs, _mm256_set1_epi32(p.begin[r]));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(p.sums + r * kStrip + column), all);
    }
  }
}

constexpr auto kAvx512Tiles =
    tile_table<kMaxRows>([](auto rows) { return tile_avx512_vnni<rows>; });
constexpr auto kAvxTiles = tile_table<6>([](auto rows) { return tile_avx_vnni<rows>; });
constexpr auto kAvx2Tiles = tile_table<4>([](auto rows) { return tile_avx2<rows>; });

bool has_vnni(bool avx512) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (avx512) return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & (1u << 11));
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 4));
}
#endif

/// The tiles of 1, 2, ... rows.
struct Tiles {
  const Int8Tile* of_rows;
  int64_t max_rows;
};

Tiles tiles_of(Int8Way way) {
#if defined(__x86_64__)
  if (way == Int8Way::kAvx512Vnni) return {kAvx512Tiles.data(), std::ssize(kAvx512Tiles)};
  if (way == Int8Way::kAvxVnni) return {kAvxTiles.data(), std::ssize(kAvxTiles)};
  if (way == Int8Way::kAvx2) return {kAvx2Tiles.data(), std::ssize(kAvx2Tiles)};
#endif
  static_cast<void>(way);
  return {kPlainTiles.data(), 1};
}

/// x rounded to an integer, ties to even, for |x| < 2^22.
[[gnu::always_inline]] inline float nearest(float x) {
  constexpr float kWhole = 12582912;  // 1.5 * 2^23: its neighbours differ by 1
  return (x + kWhole) - kWhole;
}

/// Rounds the numbers of a row to integers, with the row's scale.
struct Rounding {
  float scale, inverse;

  Rounding(const float* x, int64_t n) {
    const float largest = simd([=] {
      return best_of(x, n, 0.0f, [](float a, float b) { return larger(a < 0 ? -a : a, b); });
    });
    scale = largest / 127;
    inverse = largest > 0 && __builtin_isfinite(largest) ? 127 / largest : 0;
  }
  [[gnu::always_inline]] inline int32_t operator()(float x) const {
    float v = x * inverse;
    v = v < 127 ? v : 127;  // also turns NaN into 127; the row's scale is then NaN
    v = v > -127 ? v : -127;
    return static_cast<int32_t>(nearest(v));
  }
};

/// Computes y for some rows of x and `width` outputs from their sums.
struct Scaled {
  int64_t rows, width;
  const int32_t* sums;
  const float* x_scales;
  const float* w_scales;
  float* y;
  int64_t y_stride;
  StripEnd end;
};

void scale_tile(const Scaled& p) {
  simd([=] {
    for (int64_t r = 0; r < p.rows; ++r) {
      const int32_t* sums = p.sums + r * kStrip;
      const float* residual = p.end.residual ? p.end.residual + r * p.end.residual_stride : nullptr;
      float* y = p.y + r * p.y_stride;
      float whole[kStrip];
#pragma omp simd
      for (int64_t j = 0; j < kStrip; ++j) {
        const float v = static_cast<float>(sums[j]) * p.x_scales[r] * p.w_scales[j] + p.end.bias[j];
        whole[j] = p.end.relu && v < 0 ? 0 : v;
      }
      if (p.width < kStrip) {
        for (int64_t j = 0; j < p.width; ++j) y[j] = residual ? whole[j] + residual[j] : whole[j];
      } else if (residual) {
#pragma omp simd
        for (int64_t j = 0; j < kStrip; ++j) y[j] = whole[j] + residual[j];
      } else {
#pragma omp simd
        for (int64_t j = 0; j < kStrip; ++j) y[j] = whole[j];
      }
    }
  });
}

}  // namespace

bool int8_way_available(Int8Way way) {
#if defined(__x86_64__)
  static const bool kVnni512 = has_vnni(true), kVnni = has_vnni(false);
  const VectorLevel level = tern::detail::vector_level;
  if (way == Int8Way::kAvx512Vnni) return level == VectorLevel::kAvx512 && kVnni512;
  if (way == Int8Way::kAvxVnni) return level >= VectorLevel::kAvx2 && kVnni;
  if (way == Int8Way::kAvx2) return level >= VectorLevel::kAvx2;
#endif
  return way == Int8Way::kPlain;
}

Int8Way best_int8_way() {
  for (const Int8Way way : {Int8Way::kAvx512Vnni, Int8Way::kAvxVnni, Int8Way::kAvx2})
    if (int8_way_available(way)) return way;
  return Int8Way::kPlain;
}

void pack_int8(const float* w, int64_t n, int64_t k, uint8_t* packed, float* scales) {
  const int64_t quads = int8_inputs(k) / 4;
  std::memset(packed, 128, static_cast<size_t>(strips_of(n) * quads * kStripBytes));
  std::fill(scales, scales + strips_of(n) * kStrip, 0.0f);
  for (int64_t j = 0; j < n; ++j) {
    uint8_t* strip = packed + j / kStrip * quads * kStripBytes + j % kStrip * 4;
    const Rounding rounding(w + j * k, k);
    scales[j] = rounding.scale;
    for (int64_t i = 0; i < k; ++i)
      strip[i / 4 * kStripBytes + i % 4] = static_cast<uint8_t>(rounding(w[j * k + i]) + 128);
  }
}

void unpack_int8(const uint8_t* packed, int64_t n, int64_t k, uint8_t* rows) {
  const int64_t stride = int8_inputs(k);
  for (int64_t j = 0; j < n; ++j) {
    const uint8_t* strip = packed + j / kStrip * stride * kStrip + j % kStrip * 4;
    for (int64_t i = 0; i < stride; i += 4)
      std::memcpy(rows + j * stride + i, strip + i / 4 * kStripBytes, 4);
  }
}

void multiply_int8_some(const Int8Row& x, const uint8_t* rows, int64_t k, const float* w_scales,
                        const float* bias, const int64_t* list, int64_t count, float* y) {
  const int64_t stride = int8_inputs(k);
  simd([=] {
    for (int64_t c = 0; c < count; ++c) {
      const uint8_t* row = rows + list[c] * stride;
      int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t i = 0; i < stride; ++i)
        sum += static_cast<int32_t>(x.q[i]) * (static_cast<int32_t>(row[i]) - 128);
      y[c] = static_cast<float>(sum) * x.scale * w_scales[list[c]] + bias[list[c]];
    }
  });
}

void quantize_rows(const float* x, int64_t rows, int64_t k, int64_t x_stride, const Int8Rows& to) {
  const int64_t stride = int8_inputs(k);
  for (int64_t r = 0; r < rows; ++r) {
    int8_t* q = to.q + r * stride;
    std::fill(q + k, q + stride, int8_t{0});
    const float* row = x + r * x_stride;
    const Rounding rounding(row, k);
    to.scales[r] = rounding.scale;
    simd([=] {
#pragma omp simd
      for (int64_t i = 0; i < k; ++i) q[i] = static_cast<int8_t>(rounding(row[i]));
    });
    const int32_t sum = simd([=] {
      int32_t s = 0;
#pragma omp simd reduction(+ : s)
      for (int64_t i = 0; i < k; ++i) s += q[i];
      return s;
    });
    to.begin[r] = -128 * sum;
  }
}

void multiply_int8(Int8Way way, const StripRange& range, const Int8Rows& x, const uint8_t* packed,
                   const float* w_scales, float* y, int64_t y_stride, const StripEnd& end) {
  const Tiles tiles = tiles_of(way);
  const int64_t stride = int8_inputs(range.k), quads = stride / 4;
  const int64_t count = ceil_div(range.rows, tiles.max_rows);
  alignas(64) int32_t sums[kMaxRows * kStrip];
  for (int64_t s = range.first; s < range.last; ++s)
    for (int64_t t = 0; t < count; ++t) {
      const int64_t row = range.rows * t / count, rows = range.rows * (t + 1) / count - row;
      const int64_t column = (s - range.first) * kStrip;
      if (s + 1 < range.last && range.rows > kMemoryBound)
        fetch_part(packed + (s + 1) * quads * kStripBytes, quads * kStripBytes, t, count);
      tiles.of_rows[rows - 1]({quads, x.q + row * stride, stride, x.begin + row,
                               packed + s * quads * kStripBytes, sums});
      Scaled p{rows,
               range.width(s),
               sums,
               x.scales + row,
               w_scales + s * kStrip,
               y + row * y_stride + column,
               y_stride,
               end};
      p.end.bias += s * kStrip;
      if (end.residual) p.end.residual += row * end.residual_stride + column;
      scale_tile(p);
    }
}

}  // namespace tern::kernels
