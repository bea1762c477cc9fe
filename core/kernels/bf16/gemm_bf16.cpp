// Calls the bf16 product of the way in use (base/bf16_way.h), on one thread or on all.
#include "tern/core/kernels/bf16/gemm_bf16.h"

#include "tern/core/base/bf16_way.h"
#include "tern/core/kernels/bf16/gemm_bf16_ways.h"

namespace tern::kernels {
namespace {

void run(const Product<float>& p, const PanelDone* done) {
#if defined(__x86_64__)
  switch (bf16_way()) {
    case Bf16Way::portable:
    case Bf16Way::neon:
      break;
    case Bf16Way::avx2:
      return run_avx2(p, done);
    case Bf16Way::avx512:
      return run_avx512(p, done);
    case Bf16Way::avx512_bf16:
      return run_avx512_bf16(p, done);
    case Bf16Way::amx:
      return run_amx(p, done);
  }
#elif defined(__aarch64__)
  if (bf16_way() == Bf16Way::neon) return run_neon(p, done);
#endif
  run_portable(p, done);
}

}  // namespace

const TileSet& bf16_tiles() {
#if defined(__x86_64__)
  switch (bf16_way()) {
    case Bf16Way::portable:
    case Bf16Way::neon:
      break;
    case Bf16Way::avx2:
      return tiles_avx2();
    case Bf16Way::avx512:
      return tiles_avx512();
    case Bf16Way::avx512_bf16:
      return tiles_avx512_bf16();
    case Bf16Way::amx:
      return tiles_amx();
  }
#elif defined(__aarch64__)
  if (bf16_way() == Bf16Way::neon) return tiles_neon();
#endif
  return tiles_portable();
}

void multiply_bf16(const Product<float>& p) { run(scaled(p), nullptr); }

void multiply_bf16_together(const Product<float>& p, const PanelDone& done) {
  run(scaled(p), &done);
}

}  // namespace tern::kernels
