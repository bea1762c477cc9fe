// Packs and unpacks 8-bit numbers. The nearest code comes from one line per decade, not from a
// search in the table, so that the loops vectorize.
#include "tern/optim/quantized.h"

#include <algorithm>
#include <array>
#include <limits>

#include "tern/core/base/simd.h"

namespace tern::optim {
namespace {

constexpr int kDecades = 7;
constexpr float kLeastScale = 1e-36f;

/// The positive half of the table. Magnitude number 0 is 0, numbers first[i] + k are those of
/// decade i, and the last is 1.
struct Magnitudes {
  std::array<double, 256> value{};
  std::array<float, kDecades> slope{}, items{}, first{},
      from{};     ///< from here on, a value of decade i is nearer than the one before
  float one = 0;  ///< from here on, 1 is nearer than the largest value of the last decade
  int last = 0;   ///< the magnitude number of 1

  constexpr explicit Magnitudes(bool non_negative) {
    double power = 1e-6;
    int m = 1;
    for (int i = 0; i < kDecades; ++i, power *= 10) {
      const int n = non_negative ? 2 << i : 1 << i;
      const auto at = static_cast<size_t>(i);
      slope[at] = static_cast<float>(n / (0.9 * power));
      items[at] = static_cast<float>(n);
      first[at] = static_cast<float>(m);
      for (int k = 0; k < n; ++k) {
        value[static_cast<size_t>(m + k)] = power * (0.1 + 0.9 * (k + 0.5) / n);
      }
      from[at] = static_cast<float>(
          0.5 * (value[static_cast<size_t>(m - 1)] + value[static_cast<size_t>(m)]));
      m += n;
    }
    value[static_cast<size_t>(m)] = 1;
    one = static_cast<float>(0.5 * (value[static_cast<size_t>(m - 1)] + 1));
    last = m;
  }
};

constexpr Magnitudes kUnsigned(true), kSigned(false);

constexpr std::array<float, 256> table(bool non_negative) {
  std::array<float, 256> out{};
  for (int code = 0; code < 256; ++code) {
    const int m = non_negative ? code : code - 127;
    const Magnitudes& half = non_negative ? kUnsigned : kSigned;
    const double v = half.value[static_cast<size_t>(m < 0 ? -m : m)];
    out[static_cast<size_t>(code)] = static_cast<float>(m < 0 ? -v : v);
  }
  return out;
}

constexpr std::array<float, 256> kUnsignedTable = table(true), kSignedTable = table(false);

/// The number of the magnitude below 1 that is nearest to `a` in [0, 1].
template <bool kNonNegative>
[[gnu::always_inline]] inline int32_t magnitude(float a) {
  constexpr const Magnitudes& t = kNonNegative ? kUnsigned : kSigned;
  float slope = t.slope[0], items = t.items[0], first = t.first[0];
  for (size_t i = 1; i < kDecades; ++i) {
    const bool above = a >= t.from[i];
    slope = above ? t.slope[i] : slope;
    items = above ? t.items[i] : items;
    first = above ? t.first[i] : first;
  }
  float k = a * slope - items * (1.0f / 9);
  k = k > 0 ? k : 0;
  k = k < items - 1 ? k : items - 1;
  const auto m = static_cast<int32_t>(first) + static_cast<int32_t>(k);
  return a >= t.from[0] ? m : 0;
}

template <bool kNonNegative, class T>
void quantize_block(const T* x, int64_t n, uint8_t* codes, float* scale) {
  *scale = simd([=] {
    float most = 0;
    for (int64_t i = 0; i < n; ++i) {
      const auto v = static_cast<float>(x[i]);
      const float a = v < 0 ? -v : v;
      most = a > most ? a : most;
    }
    return most;
  });
  if (!(*scale >= kLeastScale)) {
    *scale = 0;
    std::fill_n(codes, n, zero_code(kNonNegative));
    return;
  }
  if (*scale > std::numeric_limits<float>::max()) {
    std::fill_n(codes, n, uint8_t{255});
    return;
  }
  simd([=, inverse = 1 / *scale] {
    constexpr const Magnitudes& t = kNonNegative ? kUnsigned : kSigned;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const float v = static_cast<float>(x[i]) * inverse, a = v < 0 ? -v : v;
      const int32_t m = magnitude<kNonNegative>(a), up = v >= t.one ? t.last : m;
      const int32_t positive = v > 0 && up == 0 ? 1 : up;
      codes[i] = static_cast<uint8_t>(kNonNegative ? positive : 127 + (v < 0 ? -m : up));
    }
  });
}

template <class T>
void dequantize_block(const float* values, const uint8_t* codes, float scale, T* out, int64_t n) {
  simd([=] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(values[codes[i]] * scale);
  });
}

}  // namespace

template <class T>
void dequantize(bool non_negative, const uint8_t* codes, const float* scales, T* out, int64_t n) {
  const float* values = (non_negative ? kUnsignedTable : kSignedTable).data();
  for (int64_t at = 0; at < n; at += kQuantizedBlock)
    dequantize_block(values, codes + at, scales[at / kQuantizedBlock], out + at,
                     std::min(kQuantizedBlock, n - at));
}

template <class T>
void quantize(bool non_negative, const T* x, int64_t n, uint8_t* codes, float* scales) {
  for (int64_t at = 0; at < n; at += kQuantizedBlock) {
    const int64_t count = std::min(kQuantizedBlock, n - at);
    float* scale = scales + at / kQuantizedBlock;
    if (non_negative)
      quantize_block<true>(x + at, count, codes + at, scale);
    else
      quantize_block<false>(x + at, count, codes + at, scale);
  }
}

template void dequantize(bool, const uint8_t*, const float*, float*, int64_t);
template void dequantize(bool, const uint8_t*, const float*, double*, int64_t);
template void quantize(bool, const float*, int64_t, uint8_t*, float*);
template void quantize(bool, const double*, int64_t, uint8_t*, float*);

}  // namespace tern::optim
