#include "tern/core/kernels/dropout.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/elementwise.h"

namespace tern {
namespace {

// y = x * mask / (1 - p), where the mask follows from the key. Linear in x: the gradient is the
// same op on dy, with the same mask.
Tensor masked_by_key(Consumed consumed, double p, uint64_t key) {
  consumed.make_contiguous();
  const Tensor& x = consumed.get();
  Op op("dropout", x);
  Fresh y = consumed.reuse();
  const double dropped = std::min(std::round(p * 0x1p32), 0x1p32 - 1);
  dispatch_float(x.dtype(), "dropout", [&]<class T>() {
    const T scale = static_cast<T>(1 / (1 - p));
    kernels::dropout(x.data<T>(), y.data<T>(), y.numel(), key, static_cast<uint32_t>(dropped),
                     scale);
  });
  return op.record(y, [p, key](Consumed dy) { return masked_by_key(std::move(dy), p, key); });
}

}  // namespace

Tensor composed::dropout(const Tensor& x, double p, Rng& rng) {
  return x * tern::dropout(ones(x.shape(), x.dtype()), p, rng);
}

Tensor dropout(const Tensor& x, double p, Rng& rng) {
  check_defined("dropout", x);
  check(p >= 0 && p <= 1, "dropout: the probability is {}, outside [0, 1]", p);
  if (p == 0) return x;
  if (p == 1) return where(zeros(x.shape(), DType::u8), x, 0);
  return masked_by_key(Consumed(x), p, rng.split().state()[0]);
}

}  // namespace tern
