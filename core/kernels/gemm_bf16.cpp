#include "tern/core/kernels/gemm_bf16.h"

#include "tern/core/base/bf16_way.h"
#include "tern/core/kernels/gemm_bf16_ways.h"

namespace tern::kernels {
namespace {

void run(const Bf16Call& call) {
#if defined(__x86_64__)
  switch (bf16_way()) {
    case Bf16Way::portable:
      break;
    case Bf16Way::avx2:
      return run_avx2(call);
    case Bf16Way::avx512:
      return run_avx512(call);
    case Bf16Way::avx512_bf16:
      return run_avx512_bf16(call);
    case Bf16Way::amx:
      return run_amx(call);
  }
#endif
  run_portable(call);
}

}  // namespace

void multiply_bf16(int64_t m, int64_t n, int64_t k, Factor a, MatrixStrides sa, Factor b,
                   MatrixStrides sb, float beta, float* c, int64_t ldc) {
  run({{m, n, k, a, b, c, sa, sb, ldc, scale_for(m, n, beta, c, ldc)}, nullptr});
}

void multiply_bf16_together(int64_t m, int64_t n, int64_t k, Factor a, MatrixStrides sa, Factor b,
                            MatrixStrides sb, float beta, float* c, int64_t ldc,
                            const PanelDone& done) {
  run({{m, n, k, a, b, c, sa, sb, ldc, scale_for(m, n, beta, c, ldc)}, &done});
}

}  // namespace tern::kernels
