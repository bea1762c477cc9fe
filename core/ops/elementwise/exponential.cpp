// exp, log, sqrt, square, reciprocal and variants. The structs that fused() shares are in unary.h.
#include "tern/core/ops/elementwise/unary.h"

namespace tern {
namespace {

struct Reciprocal {
  static constexpr const char* kName = "reciprocal";
  static constexpr Keep kKeep = Keep::output;
  template <class T>
  T f(T x) const {
    return T(1) / x;
  }
  auto df(const auto& dy, const auto& y) const { return -dy * (y * y); }
};

}  // namespace

Tensor exp(const Tensor& x) { return unary(x, detail::Exp()); }
Tensor expm1(const Tensor& x) { return unary(x, detail::Expm1()); }
Tensor log(const Tensor& x) { return unary(x, detail::Log()); }
Tensor log1p(const Tensor& x) { return unary(x, detail::Log1p()); }
Tensor sqrt(const Tensor& x) { return unary(x, detail::Sqrt()); }
Tensor rsqrt(const Tensor& x) { return unary(x, detail::Rsqrt()); }
Tensor square(const Tensor& x) { return unary(x, detail::Square()); }
Tensor reciprocal(const Tensor& x) { return unary(x, Reciprocal()); }

}  // namespace tern
