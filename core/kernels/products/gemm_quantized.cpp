// Products of rounded numbers: tiles of each way, and what follows the sums.
#include "tern/core/kernels/products/gemm_quantized.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "tern/core/base/cpu.h"
#include "tern/core/base/half.h"
#include "tern/core/base/max_level.h"
#include "tern/core/base/simd.h"
#include "tern/core/kernels/products/tile_table.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

namespace tern::kernels {
namespace {

using Form = QuantizedForm;

constexpr int64_t kQuads = kQuantized / 4;  // groups of four inputs per block
constexpr int64_t kQuadBytes = 4 * kStrip;  // four inputs of each output of a strip
template <Form kForm>
constexpr int64_t kScaleBytes =
    (kForm == Form::int4 ? 4 : 2) * kStrip;  // one f16 of each output of a strip
constexpr int kMaxRows = 12;                 // per tile

/// The inputs and outputs of one tile.
struct Piece {
  int64_t blocks;
  const QuantizedInputs* x;  ///< (rows, blocks)
  const uint8_t* strip;
  float* sums;  ///< (rows, 32)
  bool ahead;   ///< memory limits the product
};

template <Form kForm>
[[gnu::always_inline]] inline void fetch_block_ahead(const Piece& p, const uint8_t* block) {
  if (!p.ahead) return;
  for (int64_t i = 0; i < quantized_block_bytes(kForm); i += 64) fetch_ahead(block + i);
}

using Tile = void (*)(const Piece&);

template <Form kForm>
void tile_plain(const Piece& p) {
  constexpr bool kFour = kForm == Form::int4;
  const uint8_t* b = p.strip;
  for (int64_t block = 0; block < p.blocks; ++block, b += quantized_block_bytes(kForm)) {
    const QuantizedInputs& x = p.x[block];
    int32_t sum[kStrip];
    for (int32_t& s : sum) s = kFour ? 0 : x.begin;
    const uint8_t* code = b + kScaleBytes<kForm>;
    for (int64_t i = 0; i < kQuads; ++i)
      for (int64_t j = 0; j < kStrip; ++j)
        for (int64_t c = 0; c < 4; ++c) {
          const int byte = code[(kFour ? i / 2 : i) * kQuadBytes + 4 * j + c];
          sum[j] += x.q[4 * i + c] * (!kFour ? byte : i % 2 ? byte >> 4 : byte & 15);
        }
    for (int64_t j = 0; j < kStrip; ++j) {
      uint16_t scale, min;
      std::memcpy(&scale, b + 2 * j, 2);
      std::memcpy(&min, b + 2 * kStrip + 2 * j, 2);
      float& to = p.sums[j];
      to = __builtin_fmaf(static_cast<float>(sum[j]), x.scale * half_to_float(scale), to);
      if (kFour) to = __builtin_fmaf(half_to_float(min), x.scaled_sum, to);
    }
  }
}

#if defined(__x86_64__) || defined(__aarch64__)
[[gnu::always_inline]] inline int quad(const QuantizedInputs& x, int64_t i) {
  int four;
  std::memcpy(&four, x.q + 4 * i, sizeof(four));
  return four;
}
#endif

#if defined(__aarch64__)
#if defined(__ARM_FEATURE_DOTPROD) || !defined(__clang__)
constexpr bool kSdot = true;
#else  // clang allows sdot only where all of the code may use it
constexpr bool kSdot = false;
#endif

/// Adds, for each of 4 outputs, the products of 4 inputs. Two products of codes fit into 16 bits.
template <bool kDot>
[[gnu::always_inline]] inline void add_dots(int32x4_t& sum, int8x16_t codes, int8x16_t inputs) {
  if constexpr (!kDot)
    sum = vpadalq_s16(sum, vpaddq_s16(vmull_s8(vget_low_s8(codes), vget_low_s8(inputs)),
                                      vmull_high_s8(codes, inputs)));
#if defined(__ARM_FEATURE_DOTPROD)
  else
    sum = vdotq_s32(sum, codes, inputs);
#elif !defined(__clang__)  // the intrinsic would need a target for all of the tile
  else
    asm(".arch armv8.2-a+fp16+sve+dotprod\n\tsdot %0.4s, %1.16b, %2.16b"
        : "+w"(sum)
        : "w"(codes), "w"(inputs));
#endif
}

[[gnu::always_inline]] inline float32x4_t four_scales(const uint8_t* from) {
  return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(from)));
}

template <Form kForm, bool kDot, int kRows>
void tile_neon(const Piece& p) {
  constexpr bool kFour = kForm == Form::int4;
  constexpr int kParts = kFour ? 2 : 1, kVectors = 4;
  const uint8_t* b = p.strip;
  const QuantizedInputs* x = p.x;
  for (int64_t block = 0; block < p.blocks; ++block, ++x, b += quantized_block_bytes(kForm)) {
    fetch_block_ahead<kForm>(p, b);
    for (int64_t column = 0; column < kStrip; column += 4 * kVectors) {
      int32x4_t sum[kRows][kVectors];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; ++v) sum[r][v] = vdupq_n_s32(0);
      const uint8_t* code = b + kScaleBytes<kForm> + 4 * column;
      for (int64_t i = 0; i < kQuads; i += kParts, code += kQuadBytes)
#pragma GCC unroll 2
        for (int part = 0; part < kParts; ++part) {
          int8x16_t w[kVectors];
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) {
            const uint8x16_t bytes = vld1q_u8(code + 16 * v);
            w[v] = vreinterpretq_s8_u8(!kFour ? veorq_u8(bytes, vdupq_n_u8(128))
                                       : part ? vshrq_n_u8(bytes, 4)
                                              : vandq_u8(bytes, vdupq_n_u8(15)));
          }
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            const int8x16_t a = vreinterpretq_s8_s32(vdupq_n_s32(quad(x[r * p.blocks], i + part)));
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) add_dots<kDot>(sum[r][v], w[v], a);
          }
        }
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) {
        const int64_t at = column + 4 * v;
        const float32x4_t scales = four_scales(b + 2 * at);
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const QuantizedInputs& inputs = x[r * p.blocks];
          float* const to = p.sums + r * kStrip + at;
          float32x4_t sums =
              vfmaq_f32(vld1q_f32(to), vcvtq_f32_s32(sum[r][v]), vmulq_n_f32(scales, inputs.scale));
          if (kFour)
            sums =
                vfmaq_f32(sums, four_scales(b + 2 * (kStrip + at)), vdupq_n_f32(inputs.scaled_sum));
          vst1q_f32(to, sums);
        }
      }
    }
  }
}

template <Form kForm, bool kDot>
constexpr auto kNeonTiles = tile_table<4>([](auto rows) { return tile_neon<kForm, kDot, rows>; });

bool has_sdot() {
  if (!kSdot || tern::detail::max_level() == tern::detail::MaxLevel::baseline) return false;
#if defined(__ARM_FEATURE_DOTPROD)
  return true;
#elif defined(__linux__)
  return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#else
  return false;
#endif
}
#endif

#if defined(__x86_64__)
/// Adds a block's sums of 8 or 16 outputs; scales: their scales and, 32 outputs later, minima.
template <Form kForm>
[[gnu::target("arch=x86-64-v3"), gnu::always_inline]] inline void add_block(
    float* sums, const __m256i& sum, const QuantizedInputs& x, const __m256 (&scales)[2]) {
  const __m256 scale = _mm256_mul_ps(_mm256_set1_ps(x.scale), scales[0]);
  __m256 to = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, _mm256_loadu_ps(sums));
  if constexpr (kForm == Form::int4)
    to = _mm256_fmadd_ps(scales[1], _mm256_set1_ps(x.scaled_sum), to);
  _mm256_storeu_ps(sums, to);
}
// Here and below maskz: g++ 12 warns of uninitialised memory in the conversions without mask.
template <Form kForm>
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline void add_block(
    float* sums, const __m512i& sum, const QuantizedInputs& x, const __m512 (&scales)[2]) {
  const __m512 scale = _mm512_mul_ps(_mm512_set1_ps(x.scale), scales[0]);
  __m512 to = _mm512_fmadd_ps(_mm512_maskz_cvtepi32_ps(0xffff, sum), scale, _mm512_loadu_ps(sums));
  if constexpr (kForm == Form::int4)
    to = _mm512_fmadd_ps(scales[1], _mm512_set1_ps(x.scaled_sum), to);
  _mm512_storeu_ps(sums, to);
}
[[gnu::target("arch=x86-64-v3"), gnu::always_inline]] inline __m256i load32(const uint8_t* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline __m512 sixteen_scales(
    const uint8_t* from) {
  return _mm512_maskz_cvtph_ps(0xffff, load32(from));
}
[[gnu::target("arch=x86-64-v3"), gnu::always_inline]] inline __m256 eight_scales(
    const uint8_t* from) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

/// The codes of group 0 or 1 of two in int4.
[[gnu::target("arch=x86-64-v3"), gnu::always_inline]] inline __m256i half_bytes(const __m256i& four,
                                                                                int part) {
  return _mm256_and_si256(part ? _mm256_srli_epi16(four, 4) : four, _mm256_set1_epi8(15));
}
[[gnu::target("arch=x86-64-v4"), gnu::always_inline]] inline __m512i half_bytes(const __m512i& four,
                                                                                int part) {
  return _mm512_and_si512(part ? _mm512_srli_epi16(four, 4) : four, _mm512_set1_epi8(15));
}

template <Form kForm, int kRows>
[[gnu::target("arch=x86-64-v4,avx512vnni")]] void tile_avx512_vnni(const Piece& p) {
  constexpr bool kFour = kForm == Form::int4;
  constexpr int kParts = kFour ? 2 : 1;  // groups of four inputs per byte
  const uint8_t* b = p.strip;
  const QuantizedInputs* x = p.x;
  for (int64_t block = 0; block < p.blocks; ++block, ++x, b += quantized_block_bytes(kForm)) {
    fetch_block_ahead<kForm>(p, b);
    __m512i sum[kRows][2];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
      sum[r][0] = sum[r][1] = _mm512_set1_epi32(kFour ? 0 : x[r * p.blocks].begin);
    const uint8_t* code = b + kScaleBytes<kForm>;
    for (int64_t i = 0; i < kQuads; i += kParts, code += kQuadBytes) {
      const __m512i four[2] = {_mm512_loadu_si512(code), _mm512_loadu_si512(code + 64)};
#pragma GCC unroll 2
      for (int part = 0; part < kParts; ++part) {
        const __m512i low = kFour ? half_bytes(four[0], part) : four[0];
        const __m512i high = kFour ? half_bytes(four[1], part) : four[1];
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          const __m512i a = _mm512_set1_epi32(quad(x[r * p.blocks], i + part));
          sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], low, a);
          sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], high, a);
        }
      }
    }
    for (int v = 0; v < 2; ++v) {
      const __m512 scales[2] = {sixteen_scales(b + 32 * v),
                                sixteen_scales(b + (kFour ? 2 * kStrip : 0) + 32 * v)};
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r)
        add_block<kForm>(p.sums + r * kStrip + 16 * v, sum[r][v], x[r * p.blocks], scales);
    }
  }
}

template <Form kForm, int kRows>
[[gnu::target("arch=x86-64-v3,avxvnni")]] void tile_avx_vnni(const Piece& p) {
  constexpr bool kFour = kForm == Form::int4;
  constexpr int kParts = kFour ? 2 : 1;
  const uint8_t* b = p.strip;
  const QuantizedInputs* x = p.x;
  for (int64_t block = 0; block < p.blocks; ++block, ++x, b += quantized_block_bytes(kForm)) {
    fetch_block_ahead<kForm>(p, b);
    for (int64_t column = 0; column < kStrip; column += 16) {
      __m256i sum[kRows][2];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        sum[r][0] = sum[r][1] = _mm256_set1_epi32(kFour ? 0 : x[r * p.blocks].begin);
      const uint8_t* code = b + kScaleBytes<kForm> + 4 * column;
      for (int64_t i = 0; i < kQuads; i += kParts, code += kQuadBytes) {
        const __m256i four[2] = {load32(code), load32(code + 32)};
#pragma GCC unroll 2
        for (int part = 0; part < kParts; ++part) {
          const __m256i low = kFour ? half_bytes(four[0], part) : four[0];
          const __m256i high = kFour ? half_bytes(four[1], part) : four[1];
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            const __m256i a = _mm256_set1_epi32(quad(x[r * p.blocks], i + part));
            sum[r][0] = _mm256_dpbusd_avx_epi32(sum[r][0], low, a);
            sum[r][1] = _mm256_dpbusd_avx_epi32(sum[r][1], high, a);
          }
        }
      }
      for (int v = 0; v < 2; ++v) {
        const int64_t at = column + 8 * v;
        const __m256 scales[2] = {eight_scales(b + 2 * at),
                                  eight_scales(b + (kFour ? 2 * kStrip : 0) + 2 * at)};
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          add_block<kForm>(p.sums + r * kStrip + at, sum[r][v], x[r * p.blocks], scales);
      }
    }
  }
}

/// The vectors of 8 outputs for which registers suffice.
constexpr int vectors_of(int rows) { return rows == 1 ? 4 : rows <= 3 ? 2 : 1; }

/// Multiplies the even and the odd of four inputs separately, as 16-bit numbers: vpmaddwd adds
/// inputs 0 and 2, or 1 and 3, of each output.
template <int kRows>
[[gnu::target("arch=x86-64-v3")]] void tile_avx2_int8(const Piece& p) {
  constexpr Form kForm = Form::int8;
  constexpr int kVectors = vectors_of(kRows);
  const __m256i even_bytes = _mm256_set1_epi16(0xff);
  const int64_t blocks = p.blocks;
  float* const sums = p.sums;
  const uint8_t* b = p.strip;
  const QuantizedInputs* x = p.x;
  for (int64_t block = 0; block < blocks; ++block, ++x, b += quantized_block_bytes(kForm)) {
    fetch_block_ahead<kForm>(p, b);
    alignas(32) int32_t even[kRows][kQuads], odd[kRows][kQuads];  // pairs of 16 bits
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m256i q = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x[r * blocks].q));
      _mm256_store_si256(reinterpret_cast<__m256i*>(even[r]),
                         _mm256_srai_epi16(_mm256_slli_epi16(q, 8), 8));
      _mm256_store_si256(reinterpret_cast<__m256i*>(odd[r]), _mm256_srai_epi16(q, 8));
    }
    for (int64_t column = 0; column < kStrip; column += 8 * kVectors) {
      __m256i sum[kRows][kVectors];
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_set1_epi32(x[r * blocks].begin);
      const uint8_t* code = b + kScaleBytes<kForm> + 4 * column;
#pragma GCC unroll 1  // g++ would take the pairs from registers, one by one
      for (int64_t i = 0; i < kQuads; ++i, code += kQuadBytes) {
        __m256i w_even[kVectors], w_odd[kVectors];
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          const __m256i four = load32(code + 32 * v);
          w_even[v] = _mm256_and_si256(four, even_bytes);
          w_odd[v] = _mm256_srli_epi16(four, 8);
        }
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r) {
          const __m256i e = _mm256_set1_epi32(even[r][i]);
#pragma GCC unroll 8
          for (int v = 0; v < kVectors; ++v)
            sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(w_even[v], e));
          const __m256i o = _mm256_set1_epi32(odd[r][i]);
#pragma GCC unroll 8
          for (int v = 0; v < kVectors; ++v)
            sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(w_odd[v], o));
        }
      }
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const __m256 scales[2] = {eight_scales(b + 2 * column + 16 * v)};
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          add_block<kForm>(sums + r * kStrip + column + 8 * v, sum[r][v], x[r * blocks], scales);
      }
    }
  }
}

/// Multiplies bytes: the sums of 16 products of up to 15 * 127 fit into 16 bits.
template <int kRows>
[[gnu::target("arch=x86-64-v3")]] void tile_avx2_int4(const Piece& p) {
  constexpr Form kForm = Form::int4;
  constexpr int kVectors = vectors_of(kRows);
  const int64_t blocks = p.blocks;
  float* const sums = p.sums;
  const uint8_t* b = p.strip;
  const QuantizedInputs* x = p.x;
  for (int64_t block = 0; block < blocks; ++block, ++x, b += quantized_block_bytes(kForm)) {
    fetch_block_ahead<kForm>(p, b);
    for (int64_t column = 0; column < kStrip; column += 8 * kVectors) {
      __m256i sum[kRows][kVectors];  // pairs of 16 bits
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm256_setzero_si256();
      const uint8_t* code = b + kScaleBytes<kForm> + 4 * column;
      for (int64_t i = 0; i < kQuads; i += 2, code += kQuadBytes)
#pragma GCC unroll 2
        for (int part = 0; part < 2; ++part) {
          __m256i w[kVectors];
#pragma GCC unroll 8
          for (int v = 0; v < kVectors; ++v) w[v] = half_bytes(load32(code + 32 * v), part);
#pragma GCC unroll 8
          for (int r = 0; r < kRows; ++r) {
            const __m256i a = _mm256_set1_epi32(quad(x[r * blocks], i + part));
#pragma GCC unroll 8
            for (int v = 0; v < kVectors; ++v)
              sum[r][v] = _mm256_add_epi16(sum[r][v], _mm256_maddubs_epi16(w[v], a));
          }
        }
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) {
        const uint8_t* from = b + 2 * column + 16 * v;
        const __m256 scales[2] = {eight_scales(from), eight_scales(from + 2 * kStrip)};
#pragma GCC unroll 8
        for (int r = 0; r < kRows; ++r)
          add_block<kForm>(sums + r * kStrip + column + 8 * v,
                           _mm256_madd_epi16(sum[r][v], _mm256_set1_epi16(1)), x[r * blocks],
                           scales);
      }
    }
  }
}

template <Form kForm>
constexpr auto kAvx512Tiles = tile_table<kMaxRows>([](auto rows) {
  return tile_avx512_vnni<kForm, rows>;
});
template <Form kForm>
constexpr auto kAvxTiles = tile_table<6>([](auto rows) { return tile_avx_vnni<kForm, rows>; });
template <Form kForm>
constexpr auto kAvx2Tiles = tile_table<6>([](auto rows) {
  if constexpr (kForm == Form::int8) return tile_avx2_int8<rows>;
  if constexpr (kForm == Form::int4) return tile_avx2_int4<rows>;
});

bool has_vnni(bool avx512) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (tern::detail::max_level() < tern::detail::MaxLevel::avx512_bf16) return false;
  if (avx512) return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & (1u << 11));
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & (1u << 4));
}
#endif

/// The tiles of 1, 2, ... rows.
struct Tiles {
  const Tile* of_rows;
  int64_t max_rows;
};

template <Form kForm>
Tiles tiles_of(QuantizedWay way) {
#if defined(__x86_64__)
  if (way == QuantizedWay::kAvx512Vnni) return {kAvx512Tiles<kForm>.data(), kMaxRows};
  if (way == QuantizedWay::kAvxVnni) return {kAvxTiles<kForm>.data(), std::ssize(kAvxTiles<kForm>)};
  if (way == QuantizedWay::kAvx2) return {kAvx2Tiles<kForm>.data(), std::ssize(kAvx2Tiles<kForm>)};
#elif defined(__aarch64__)
  if (way == QuantizedWay::kNeonDot) return {kNeonTiles<kForm, kSdot>.data(), 4};
  if (way == QuantizedWay::kNeon) return {kNeonTiles<kForm, false>.data(), 4};
#endif
  static_cast<void>(way);
  static constexpr Tile kPlainTile = tile_plain<kForm>;
  return {&kPlainTile, 1};
}

/// Computes y for some rows of x and `width` outputs from their sums.
struct Ending {
  int64_t rows, width;
  const float* sums;
  const float* units;
  float* y;
  int64_t y_stride;
  StripEnd end;
};

void end_tile(const Ending& p) {
  simd([=] {
    for (int64_t r = 0; r < p.rows; ++r) {
      const float* sums = p.sums + r * kStrip;
      const float* residual = p.end.residual ? p.end.residual + r * p.end.residual_stride : nullptr;
      float* y = p.y + r * p.y_stride;
      float whole[kStrip];
#pragma omp simd
      for (int64_t j = 0; j < kStrip; ++j) {
        const float v = sums[j] * p.units[j] + p.end.bias[j];
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

bool quantized_way_available(QuantizedWay way) {
#if defined(__x86_64__)
  static const bool kVnni512 = has_vnni(true), kVnni = has_vnni(false);
  const VectorLevel level = tern::detail::vector_level;
  if (way == QuantizedWay::kAvx512Vnni) return level == VectorLevel::kAvx512 && kVnni512;
  if (way == QuantizedWay::kAvxVnni) return level >= VectorLevel::kAvx2 && kVnni;
  if (way == QuantizedWay::kAvx2) return level >= VectorLevel::kAvx2;
#elif defined(__aarch64__)
  static const bool kHasSdot = has_sdot();
  if (way == QuantizedWay::kNeonDot) return kHasSdot;
  if (way == QuantizedWay::kNeon) return true;
#endif
  return way == QuantizedWay::kPlain;
}

QuantizedWay best_quantized_way() {
  return *std::find_if(kQuantizedWays.rbegin(), kQuantizedWays.rend(), quantized_way_available);
}

void multiply_quantized(Form form, QuantizedWay way, const StripRange& range,
                        const QuantizedInputs* x, const uint8_t* packed, const float* units,
                        float* y, int64_t y_stride, const StripEnd& end) {
  const Tiles tiles = form == Form::int8 ? tiles_of<Form::int8>(way) : tiles_of<Form::int4>(way);
  const int64_t blocks = quantized_blocks(range.k), bytes = quantized_strip_bytes(form, range.k);
  const int64_t count = ceil_div(range.rows, tiles.max_rows);
  alignas(64) float sums[kMaxRows * kStrip];
  const int64_t first = range.part.first(count), last = range.part.last(count);
  for (int64_t s = range.first; s < range.last; ++s)
    for (int64_t t = first; t < last; ++t) {
      const int64_t row = range.rows * t / count, rows = range.rows * (t + 1) / count - row;
      const int64_t column = (s - range.first) * kStrip;
      if (s + 1 < range.last && range.rows > kMemoryBound)
        fetch_piece(packed + (s + 1) * bytes, bytes, t - first, last - first);
      std::fill(sums, sums + rows * kStrip, 0.0f);
      tiles.of_rows[rows - 1](
          {blocks, x + row * blocks, packed + s * bytes, sums, range.rows <= kMemoryBound});
      Ending p{
          rows, range.width(s), sums, units + s * kStrip, y + row * y_stride + column, y_stride,
          end};
      p.end.bias += s * kStrip;
      if (end.residual) p.end.residual += row * end.residual_stride + column;
      end_tile(p);
    }
}

void multiply_quantized_some(Form form, const QuantizedInputs* x, const QuantizedWeights* w,
                             int64_t k, const float* units, const float* bias, const int64_t* list,
                             int64_t count, float* y) {
  const int64_t blocks = quantized_blocks(k);
  simd([=] {
    for (int64_t c = 0; c < count; ++c) {
      const QuantizedWeights* row = w + list[c] * blocks;
      float sum = 0;
      for (int64_t b = 0; b < blocks; ++b) {
        int32_t products = form == Form::int8 ? x[b].begin : 0;
#pragma omp simd reduction(+ : products)
        for (int64_t i = 0; i < kQuantized; ++i)
          products += static_cast<int32_t>(x[b].q[i]) * static_cast<int32_t>(row[b].code[i]);
        sum = __builtin_fmaf(static_cast<float>(products), x[b].scale * half_to_float(row[b].scale),
                             sum);
        if (form == Form::int4)
          sum = __builtin_fmaf(half_to_float(row[b].min), x[b].scaled_sum, sum);
      }
      y[c] = sum * units[list[c]] + bias[list[c]];
    }
  });
}

}  // namespace tern::kernels
