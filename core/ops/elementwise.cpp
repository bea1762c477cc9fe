#include "tern/core/ops/elementwise.h"

#include "tern/core/ops/write.h"

namespace tern::detail {

DType promote(const char* op, DType a, DType b) {
  if (a == b) return a;
  if (is_float(a) && is_float(b))
    fail(
        fmt::format("{}: mixes f32 and f64; convert one of them with .to(DType::f32) or "
                    ".to(DType::f64)",
                    op));
  if (is_float(a)) return a;
  if (is_float(b)) return b;
  return DType::i64;
}

Tensor scalar_for(const Tensor& other, Scalar s) {
  bool adopts = s.is_integer || is_float(other.dtype());
  return scalar(s, adopts ? other.dtype() : DType::f32);
}

Tensor readable(const Tensor& x) {
  constexpr int64_t kLarge = 4096;
  const Layout& l = x.layout();
  if (l.ndim() < 2 || std::abs(l.strides.back()) <= 1 || l.numel() < kLarge) return x;
  bool transposed = false;
  for (int a = 0; a < l.ndim() - 1; ++a) transposed |= std::abs(l.strides[a]) == 1;
  if (!transposed) return x;
  Fresh copy(x.shape(), x.dtype());
  write("clone", copy, x);
  return not_differentiable(copy);
}

}  // namespace tern::detail
