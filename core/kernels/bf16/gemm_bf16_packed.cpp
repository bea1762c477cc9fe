// Decoding's bf16 products with packed weights: ends rows with bias, ReLU and residual.
#include "tern/core/kernels/bf16/gemm_bf16_packed.h"

#include "tern/core/base/simd.h"
#include "tern/core/kernels/bf16/bf16_elements.h"
#include "tern/core/kernels/scratch.h"

namespace tern::kernels {
namespace {

/// y (n) = f(sums + bias) + residual (or null).
void end_row(const float* sums, const float* bias, const float* residual, bool relu, int64_t n,
             float* y) {
  simd([=] {
#pragma omp simd
    for (int64_t j = 0; j < n; ++j) {
      const float s = sums[j] + bias[j];
      const float f = relu && s <= 0 ? 0 : s;  // keeps NaN
      y[j] = residual ? f + residual[j] : f;
    }
  });
}

/// Lane l sums places l, l + kLanes, ... Then the upper half of the lanes is added to the lower
/// half until one is left. Products of two bfloat16 numbers are exact, so fused multiply-adds give
/// the same bits.
[[gnu::always_inline]] inline float dot(const Bf16* x, const Bf16* w, int64_t k) {
  constexpr int64_t kLanes = 32;
  float lane[kLanes] = {};
  const int64_t whole = k / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes)
    for (int64_t l = 0; l < kLanes; ++l) lane[l] += as_factor(x[i + l]) * as_factor(w[i + l]);
  for (int64_t i = whole; i < k; ++i) lane[i - whole] += as_factor(x[i]) * as_factor(w[i]);
  for (int64_t n = kLanes / 2; n > 0; n /= 2)
    for (int64_t l = 0; l < n; ++l) lane[l] += lane[l + n];
  return lane[0];
}

}  // namespace

void multiply_bf16_strips(const Bf16Packing& packing, const StripRange& range, const void* rows,
                          const void* strips, float* y, int64_t y_stride, const StripEnd& end) {
  const int64_t first = range.first * kStrip;
  const int64_t wide = range.last * kStrip - first, n = std::min(range.n - first, wide);
  const int64_t begin = packing.first_row(range.rows, range.part),
                stop = packing.first_row(range.rows, {range.part.i + 1, range.part.n});
  Scratch<float> sums((stop - begin) * wide);
  if (range.k == 0)
    std::fill_n(sums.data(), (stop - begin) * wide, 0.0f);
  else
    packing.multiply(range, rows, strips, sums.data(), wide);
  for (int64_t r = begin; r < stop; ++r)
    end_row(sums.data() + (r - begin) * wide, end.bias + first,
            end.residual ? end.residual + r * end.residual_stride : nullptr, end.relu, n,
            y + r * y_stride);
}

void multiply_bf16_some(const float* x, const Bf16* w, int64_t k, const float* bias,
                        const int64_t* list, int64_t count, float* y) {
  Scratch<Bf16> rounded(k);
  round_to_bf16(x, rounded.data(), k);
  simd([=, x = rounded.data()] {
    for (int64_t c = 0; c < count; ++c) y[c] = dot(x, w + list[c] * k, k) + bias[list[c]];
  });
}

}  // namespace tern::kernels
