// Declares the ways to compute bf16 products, each defined in the file that compiles it, and their
// products with packed operands. Inside of core only.
#pragma once

#include "tern/core/kernels/bf16/bf16_elements.h"
#include "tern/core/kernels/bf16/gemm_bf16.h"
#include "tern/core/kernels/bf16/gemm_bf16_packed.h"
#include "tern/core/kernels/products/gemm_blocks.h"
#include "tern/core/kernels/products/tile_set.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tern::kernels {

/// Computes the product on all threads, or on this thread if `done` is null.
template <TileKind K>
void multiply_blocks(const Product<float>& p, const PanelDone* done) {
  if (done)
    multiply_together<K>(p, *done);
  else
    multiply_alone<K>(p);
}

/// Uses a kind of tiles on operands that are packed once. For each tile of rows and strip of
/// columns it sums over all of k, in the same blocks as the other forms of the product.
template <TileKind K>
struct PackedKind {
  using Packed = typename K::Packed;
  static constexpr int64_t kParts = kStrip / K::kColumns;  // per strip of 32

  struct Depths {
    explicit Depths(int64_t places) : k(places), count(ceil_div(places, K::kMaxDepth)) {}
    int64_t first(int64_t d) const { return K::first_depth(k, count, d); }
    int64_t places(int64_t d) const { return first(d + 1) - first(d); }
    int64_t k, count;
  };
  struct Tiles {
    explicit Tiles(int64_t m) : rows(m), count(ceil_div(m, K::kRows)) {}
    int64_t first(int64_t t) const { return K::first_row(rows, count, t); }
    int64_t height(int64_t t) const { return first(t + 1) - first(t); }
    int64_t rows, count;
  };

  static int64_t padded(int64_t k) { return ceil_div(k, kBf16Group) * kBf16Group; }
  // A tile with few rows may read beyond them.
  static int64_t bytes_of_rows(int64_t rows, int64_t k) {
    return (rows + kLastRows) * padded(k) * static_cast<int64_t>(sizeof(Packed));
  }
  static int64_t bytes_of_strips(int64_t n, int64_t k) {
    return strips_of(n) * kStrip * padded(k) * static_cast<int64_t>(sizeof(Packed));
  }

  static int64_t first_row(int64_t rows, RowPart part) {
    const Tiles tiles(rows);
    return tiles.first(part.first(tiles.count));
  }

  static void pack_rows(const float* x, int64_t rows, int64_t k, RowPart part, void* packed) {
    const Depths depths(k);
    const Tiles tiles(rows);
    for (int64_t t = part.first(tiles.count); t < part.last(tiles.count); ++t)
      for (int64_t d = 0; d < depths.count; ++d)
        K::pack_a(x + tiles.first(t) * k + depths.first(d), k, /*by_rows=*/true, tiles.height(t),
                  depths.places(d), tile(packed, tiles, t, k) + block(tiles, t, depths, d));
  }

  static void pack_strips(const float* w, int64_t n, int64_t k, void* packed) {
    const Depths depths(k);
    Packed* to = static_cast<Packed*>(packed);
    std::fill_n(to, strips_of(n) * kStrip * padded(k), Packed{});
    for (int64_t j = 0; j < n; j += K::kColumns, to += K::kColumns * padded(k))
      for (int64_t d = 0; d < depths.count; ++d)
        K::pack_b(w + j * k + depths.first(d), k, /*by_rows=*/false, std::min(K::kColumns, n - j),
                  depths.places(d), to + depths.first(d) * K::kColumns);
  }

  static void read_output(const void* strips, int64_t output, int64_t k, float* w) {
    const Depths depths(k);
    const Packed* from =
        static_cast<const Packed*>(strips) + output / K::kColumns * K::kColumns * padded(k);
    for (int64_t d = 0; d < depths.count; ++d) {
      const int64_t first = depths.first(d), places = depths.places(d);
      for (int64_t i = 0; i < places; ++i)
        w[first + i] =
            number(from[first * K::kColumns + K::place_b(places, i, output % K::kColumns)]);
    }
  }

  static void multiply(const StripRange& range, const void* rows, const void* strips, float* sums,
                       int64_t stride) {
    const Depths depths(range.k);
    const Tiles tiles(range.rows);
    const int64_t size = K::kColumns * padded(range.k);
    const int64_t begin = range.part.first(tiles.count), end = range.part.last(tiles.count);
    [[maybe_unused]] const typename K::Scope scope;
    for (int64_t part = range.first * kParts; part < range.last * kParts; ++part) {
      const Packed* strip = static_cast<const Packed*>(strips) + part * size;
      float* column = sums + (part - range.first * kParts) * K::kColumns;
      for (int64_t t = begin; t < end; ++t)
        for (int64_t d = 0; d < depths.count; ++d)
          K::tile(tiles.height(t), K::kColumns, depths.places(d),
                  tile(rows, tiles, t, range.k) + block(tiles, t, depths, d),
                  strip + depths.first(d) * K::kColumns, K::kColumns,
                  column + (tiles.first(t) - tiles.first(begin)) * stride, stride, d > 0);
    }
  }

  static constexpr Bf16Packing packing() {
    return {bytes_of_rows, bytes_of_strips, first_row, pack_rows,
            pack_strips,   read_output,     multiply};
  }

 private:
  static constexpr int64_t kLastRows = 16;
  static float number(float packed) { return packed; }
  static float number(uint16_t packed) { return as_factor(Bf16{packed}); }
  template <class Pointer>
  static auto tile(Pointer* packed, const Tiles& tiles, int64_t t, int64_t k) {
    using To = std::conditional_t<std::is_const_v<Pointer>, const Packed, Packed>;
    return static_cast<To*>(packed) + tiles.first(t) * padded(k);
  }
  static int64_t block(const Tiles& tiles, int64_t t, const Depths& depths, int64_t d) {
    return K::size_a(tiles.height(t), depths.first(d));
  }
};

/// A way to compute bf16 products.
struct Bf16Kernels {
  using Run = void(const Product<float>& p, const PanelDone* done);
  Run* run;  ///< as multiply_blocks; REQUIRES: beta is 0 or 1
  Bf16Packing packing;
  const TileSet& tiles;
};

template <TileKind K, Bf16Kernels::Run* kRun = multiply_blocks<K>>
const Bf16Kernels& bf16_kernels_of() {
  static const Bf16Kernels kKernels{kRun, PackedKind<K>::packing(), tile_set<K>()};
  return kKernels;
}

const Bf16Kernels& bf16_portable();
#if defined(__x86_64__) || defined(__aarch64__)
#if defined(__x86_64__)
inline unsigned float_mode() { return _mm_getcsr(); }
inline void set_float_mode(unsigned mode) { _mm_setcsr(mode); }
inline constexpr unsigned kFlush = 0x8040;  // FTZ, DAZ
#else
inline uint64_t float_mode() {
  uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  return mode;
}
inline void set_float_mode(uint64_t mode) { asm volatile("msr fpcr, %0" ::"r"(mode)); }
inline constexpr uint64_t kFlush = 1 << 24;  // FZ
#endif
/// While in scope, this thread's sums below the smallest normal number become zero, and operands
/// below it are read as zero.
struct FlushScope {
  FlushScope() { set_float_mode(before | kFlush); }
  ~FlushScope() { set_float_mode(before); }
  FlushScope(const FlushScope&) = delete;
  FlushScope& operator=(const FlushScope&) = delete;
  const decltype(float_mode()) before = float_mode();
};
#endif
#if defined(__aarch64__)
const Bf16Kernels& bf16_neon();
#endif
#if defined(__x86_64__)
const Bf16Kernels& bf16_avx2();
const Bf16Kernels& bf16_avx512();
const Bf16Kernels& bf16_avx512_bf16();
const Bf16Kernels& bf16_amx();
#endif

}  // namespace tern::kernels
