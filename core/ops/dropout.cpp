#include "tern/core/kernels/dropout.h"

#include <algorithm>
#include <cmath>

#include "tern/core/ops/elementwise.h"
#include "tern/core/rng.h"

namespace tern {
namespace {

// y = x * mask / (1 - p), where the mask follows from the key. Linear in x: the gradient is the
// same op on dy, with the same mask. `reuse`: x may be overwritten if nobody else holds it.
Tensor masked_by_key(const Tensor& x, double p, uint64_t key, bool reuse) {
  Fresh y = reuse && !grad_enabled() ? detail::gradient_like(x) : Fresh(x.shape(), x.dtype());
  Tensor in = x.contiguous();
  const double dropped = std::min(std::round(p * 0x1p32), 0x1p32 - 1);
  dispatch_float(x.dtype(), "dropout", [&]<class T>() {
    const T scale = static_cast<T>(1 / (1 - p));
    kernels::dropout(in.data<T>(), y.data<T>(), y.numel(), key, static_cast<uint32_t>(dropped),
                     scale);
  });
  return record("dropout", y, {x},
                [p, key](const Tensor& dy) { return masked_by_key(dy, p, key, true); });
}

}  // namespace

Tensor dropout(const Tensor& x, double p, Rng& rng) {
  check(p >= 0 && p <= 1, "dropout: the probability is {}, outside [0, 1]", p);
  if (p == 0) return x;
  if (p == 1) return where(zeros(x.shape(), DType::u8), x, 0);
  return masked_by_key(x, p, rng.split().state()[0], false);
}

}  // namespace tern
