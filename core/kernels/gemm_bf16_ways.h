// The ways of gemm_bf16.h, each where it is compiled. Inside of core only.
#pragma once

#include "tern/core/kernels/gemm_bf16.h"
#include "tern/core/kernels/gemm_blocks.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace tern::kernels {

constexpr int64_t kBf16Group = 32;  ///< places of k that are summed apart

/// One of the product's forms: multiply_alone or, with `done`, multiply_shared.
struct Bf16Call {
  BlockedProduct product;
  const PanelDone* done;  ///< null: in this thread

  template <class K>
  void run() const {
    if (done)
      multiply_shared<K>(product, *done);
    else
      multiply_alone<K>(product);
  }
};

void run_portable(const Bf16Call& call);
#if defined(__x86_64__)
/// Sums with results below the smallest normal number flushed to zero, and such operands read as
/// zero.
struct FlushScope {
  FlushScope() : before(_mm_getcsr()) { _mm_setcsr(before | 0x8040); }
  ~FlushScope() { _mm_setcsr(before); }
  FlushScope(const FlushScope&) = delete;
  FlushScope& operator=(const FlushScope&) = delete;
  unsigned before;
};

void run_avx2(const Bf16Call& call);
void run_avx512(const Bf16Call& call);
void run_avx512_bf16(const Bf16Call& call);
void run_amx(const Bf16Call& call);
#endif

}  // namespace tern::kernels
