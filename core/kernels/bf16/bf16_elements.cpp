// Converts arrays between f32 and stored bfloat16, in vector code on all threads.
#include "tern/core/kernels/bf16/bf16_elements.h"

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/creation/copy.h"

namespace tern::kernels {
namespace {

[[gnu::always_inline]] inline uint16_t rounded(float x) {
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  const uint32_t tiny = (bits >> 16 & 0x8000u) | ((bits & 0x7fffffffu) != 0 ? 1u : 0u);
  return static_cast<uint16_t>(reads_as_zero(bits) ? tiny : nearest_bf16(bits));
}

}  // namespace

void round_to_bf16(const float* x, Bf16* y, int64_t n) {
  parallel_for(n, kGrain, [=](int64_t begin, int64_t end) {
    simd([=] {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) y[i].bits = rounded(x[i]);
    });
  });
}

void widen(const Bf16* x, float* y, int64_t n) {
  parallel_for(n, kGrain, [=](int64_t begin, int64_t end) {
    simd([=] {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) y[i] = widened(x[i]);
    });
  });
}

}  // namespace tern::kernels
