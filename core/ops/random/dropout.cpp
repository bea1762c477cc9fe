// Dropout of single elements. Only a random key is kept: backward computes the mask again from it.
// Dropout of channels: dropout_channels.cpp.
#include "tern/core/ops/random/dropout.h"

#include <algorithm>
#include <cmath>

#include "tern/core/ops/composed.h"
#include "tern/core/ops/elementwise.h"

namespace tern {

void detail::check_dropout(const char* op, double p, const Rng* rng) {
  check(p >= 0 && p <= 1, "{}: the probability is {}, outside [0, 1]", op, p);
  check(p == 0 || rng, "{}: dropout of {} needs a generator; give .rng = &rng", op, p);
}

kernels::DropMask detail::mask_of(double p, uint64_t key) {
  const double first = std::min(std::round(p * 0x1p32), 0x1p32 - 1);
  return {key, static_cast<uint32_t>(first), 1 / (1 - p)};
}

std::optional<kernels::DropMask> detail::draw_mask(double p, Rng* rng) {
  if (p == 0) return {};
  return mask_of(p, rng->split().state()[0]);
}

// y = x * mask / (1 - p), with a mask computed from the key. Linear in x: the gradient is the same
// op on dy with the same mask.
Tensor detail::masked(const char* name, Consumed consumed, const kernels::DropMask& mask) {
  consumed.make_contiguous();
  const Tensor& x = consumed.get();
  Op op(name, x);
  Fresh y = consumed.reuse();
  dispatch_float(x.dtype(), name,
                 [&]<class T>() { kernels::dropout(x.data<T>(), y.data<T>(), y.numel(), mask); });
  return op.record(y, [name, mask](Consumed dy) { return masked(name, std::move(dy), mask); });
}

Tensor composed::dropout(const Tensor& x, double p, Rng& rng) {
  return x * tern::dropout(ones(x.shape(), x.dtype()), p, rng);
}

Tensor dropout(const Tensor& x, double p, Rng& rng) {
  check_defined("dropout", x);
  detail::check_dropout("dropout", p, &rng);
  if (p == 0) return x;
  if (p == 1) return where(zeros(x.shape(), DType::u8), x, 0);
  check(is_float(x.dtype()),
        "dropout: needs a floating tensor, got {}; convert with .to(DType::f32)", x.dtype());
  return detail::masked("dropout", Consumed(x), *detail::draw_mask(p, &rng));
}

}  // namespace tern
