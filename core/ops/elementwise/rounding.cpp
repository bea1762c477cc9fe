// abs, sign, floor, ceil, round, trunc, and the remainder fmod.
#include "tern/core/kernels/creation/copy.h"
#include "tern/core/kernels/elementwise/division.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/elementwise/unary.h"

namespace tern {
namespace {

using namespace formula;
using detail::binary;
using detail::exact_scalar_for;
using detail::Keep;
using detail::Needs;
using detail::unary;

/// Piecewise constant functions, whose gradient is 0.
struct Flat {
  static constexpr bool kIntegers = true;
  static constexpr Keep kKeep = Keep::nothing;
  Tensor df(const Tensor& dy) const { return detail::zero_gradient(dy); }
};

struct Zero : Flat {
  static constexpr const char* kName = "zero_gradient";
  template <class T>
  T f(T) const {
    return 0;
  }
};

struct Sign : Flat {
  static constexpr const char* kName = "sign";
  template <class T>
  T f(T x) const {
    return sign(x);
  }
};

struct Floor : Flat {
  static constexpr const char* kName = "floor";
  template <class T>
  T f(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::floor(x);
    return x;
  }
};

struct Ceil : Flat {
  static constexpr const char* kName = "ceil";
  template <class T>
  T f(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::ceil(x);
    return x;
  }
};

struct Round : Flat {
  static constexpr const char* kName = "round";
  template <class T>
  T f(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::nearbyint(x);
    return x;
  }
};

struct Trunc : Flat {
  static constexpr const char* kName = "trunc";
  template <class T>
  T f(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::trunc(x);
    return x;
  }
};

/// a - b trunc(a / b); the gradient treats the quotient as constant.
struct Fmod {
  static constexpr const char* kName = "fmod";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::nothing, kNeedsB = Needs::both;
  template <class T>
  T f(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fmod(a, b);
    else if constexpr (std::is_signed_v<T>)
      return b == -1 ? T(0) : static_cast<T>(a % b);  // the lowest integer / -1 overflows
    else
      return static_cast<T>(a % b);
  }
  Tensor dfa(const Tensor& dy, const Tensor&, const Tensor&) const { return dy; }
  template <Number T>
  T dfb(T dy, T a, T b) const {
    return -dy * std::trunc(a / b);
  }
  Tensor dfb(const Tensor& dy, const Tensor& a, const Tensor& b) const {
    return -dy * trunc(a / b);
  }
};

}  // namespace

Tensor detail::zero_gradient(const Tensor& dy) { return unary(dy, Zero()); }

Tensor abs(const Tensor& x) { return unary(x, detail::Abs()); }
Tensor sign(const Tensor& x) { return unary(x, Sign()); }
Tensor floor(const Tensor& x) { return unary(x, Floor()); }
Tensor ceil(const Tensor& x) { return unary(x, Ceil()); }
Tensor round(const Tensor& x) { return unary(x, Round()); }
Tensor trunc(const Tensor& x) { return unary(x, Trunc()); }

Tensor fmod(const Tensor& a, const Tensor& b) {
  check_defined("fmod", a, b);
  const bool integers = !is_float(a.dtype()) && !is_float(b.dtype());
  if (integers && numel(broadcast_shapes("fmod", a.shape(), b.shape())) > 0) {
    Tensor divisor = b.contiguous();
    check(!kernels::any_zero(detail::input_of(divisor).data, b.dtype(), b.numel()),
          "fmod: the divisor of shape {} has a zero, which integers cannot be divided by; convert "
          "with .to(DType::f32)",
          b.shape());
  }
  return binary(a, b, Fmod());
}

Tensor fmod(const Tensor& a, Scalar b) {
  check_defined("fmod", a);
  return fmod(a, exact_scalar_for(a, b)).to(detail::type_for(a, b));
}

}  // namespace tern
