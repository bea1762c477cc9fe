#include "tern/core/kernels/bf16_elements.h"

#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"
#include "tern/core/kernels/copy.h"

namespace tern::kernels {
namespace {

[[gnu::always_inline]] inline uint16_t rounded(float x) {
  constexpr uint32_t kInfinity = 0x7f800000, kLeastNormal = 0x00800000;
  const uint32_t bits = std::bit_cast<uint32_t>(x), size = bits & 0x7fffffff;
  const uint32_t sign = bits >> 16 & 0x8000;
  const uint32_t nearest = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  const uint32_t number = size < kLeastNormal ? sign | (size != 0 ? 1 : 0) : nearest;
  return static_cast<uint16_t>(size > kInfinity ? bits >> 16 | 0x40 : number);
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
