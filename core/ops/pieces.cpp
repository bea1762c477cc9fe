// Functions made of straight pieces: abs, sign, rounding, clamp, minimum, maximum.
#include <limits>

#include "tern/core/kernels/arithmetic.h"
#include "tern/core/kernels/copy.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/formula.h"

namespace tern {
namespace {

using namespace formula;
using detail::binary;
using detail::Keep;
using detail::Needs;
using detail::scalar_for;
using detail::unary;

struct Abs {
  static constexpr const char* kName = "abs";
  static constexpr bool kIntegers = true;
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else if constexpr (std::is_floating_point_v<T>)
      return std::abs(x);
    else
      return x < 0 ? kernels::Subtract()(T(0), x) : x;
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    return dy * sign(x);
  }
};

/// Functions that are constant between jumps: the gradient is 0.
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

/// Open ends are infinities. The gradient is 1 strictly between the bounds, as in PyTorch 2.15.
struct Clamp {
  static constexpr const char* kName = "clamp";
  static constexpr bool kIntegers = true;
  static constexpr Keep kKeep = Keep::input;
  double low, high;
  template <class T>
  static T bound(double v) {
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      if (v <= static_cast<double>(Limits::min())) return Limits::min();
      if (v >= static_cast<double>(Limits::max())) return Limits::max();
    }
    return static_cast<T>(v);
  }
  template <class T>
  T f(T x) const {
    T lo = bound<T>(low), hi = bound<T>(high);
    T y = x < lo ? lo : x;  // NaN stays
    return y > hi ? hi : y;
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    using C = Constant<T>;
    return where(logical_and(gt(x, C(low)), lt(x, C(high))), dy, C(0));
  }
};

struct Minimum {
  static constexpr const char* kName = "minimum";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::both, kNeedsB = Needs::both;
  template <class T>
  T f(T a, T b) const {
    return minimum(a, b);
  }
  template <class T>
  T dfa(const T& dy, const T& a, const T& b) const {
    using C = Constant<T>;
    return where(eq(a, b), C(0.5) * dy, where(gt(a, b), C(0), dy));
  }
  template <class T>
  T dfb(const T& dy, const T& a, const T& b) const {
    return dfa(dy, b, a);
  }
};

struct Maximum {
  static constexpr const char* kName = "maximum";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::both, kNeedsB = Needs::both;
  template <class T>
  T f(T a, T b) const {
    return maximum(a, b);
  }
  template <class T>
  T dfa(const T& dy, const T& a, const T& b) const {
    using C = Constant<T>;
    return where(eq(a, b), C(0.5) * dy, where(lt(a, b), C(0), dy));
  }
  template <class T>
  T dfb(const T& dy, const T& a, const T& b) const {
    return dfa(dy, b, a);
  }
};

bool is_fraction(double v) { return std::isfinite(v) && v != std::floor(v); }

}  // namespace

Tensor detail::zero_gradient(const Tensor& dy) { return unary(dy, Zero()); }

Tensor abs(const Tensor& x) { return unary(x, Abs()); }
Tensor sign(const Tensor& x) { return unary(x, Sign()); }
Tensor floor(const Tensor& x) { return unary(x, Floor()); }
Tensor ceil(const Tensor& x) { return unary(x, Ceil()); }
Tensor round(const Tensor& x) { return unary(x, Round()); }

Tensor clamp(const Tensor& x, std::optional<double> low, std::optional<double> high) {
  check(low || high, "clamp: needs a lower bound, an upper bound, or both");
  constexpr double kInf = std::numeric_limits<double>::infinity();
  Clamp op{low.value_or(-kInf), high.value_or(kInf)};
  bool fraction = is_fraction(op.low) || is_fraction(op.high);
  return unary(fraction ? x.to(detail::float_of(x.dtype())) : x, op);
}

Tensor minimum(const Tensor& a, const Tensor& b) { return binary(a, b, Minimum()); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary(a, b, Maximum()); }
Tensor minimum(const Tensor& a, Scalar b) { return minimum(a, scalar_for(a, b)); }
Tensor maximum(const Tensor& a, Scalar b) { return maximum(a, scalar_for(a, b)); }

}  // namespace tern
