// Chooses the bf16 kernels of a way (base/bf16_way.h), and calls the product of the way in use.
#include "tern/core/kernels/bf16/gemm_bf16.h"

#include "tern/core/base/bf16_way.h"
#include "tern/core/kernels/bf16/gemm_bf16_ways.h"

namespace tern::kernels {
namespace {

const Bf16Kernels& kernels_of([[maybe_unused]] Bf16Way way) {
#if defined(__x86_64__)
  switch (way) {
    case Bf16Way::portable:
    case Bf16Way::neon:
      break;
    case Bf16Way::avx2:
      return bf16_avx2();
    case Bf16Way::avx512:
      return bf16_avx512();
    case Bf16Way::avx512_bf16:
      return bf16_avx512_bf16();
    case Bf16Way::amx:
      return bf16_amx();
  }
#elif defined(__aarch64__)
  if (way == Bf16Way::neon) return bf16_neon();
#endif
  return bf16_portable();
}

}  // namespace

const TileSet& bf16_tiles() { return kernels_of(bf16_way()).tiles; }

const Bf16Packing& bf16_packing(Bf16Way way) { return kernels_of(way).packing; }

void multiply_bf16(const Product<float>& p) { kernels_of(bf16_way()).run(scaled(p), nullptr); }

void multiply_bf16_together(const Product<float>& p, const PanelDone& done) {
  kernels_of(bf16_way()).run(scaled(p), &done);
}

}  // namespace tern::kernels
