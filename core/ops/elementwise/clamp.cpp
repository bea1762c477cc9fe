// clamp, minimum, maximum, hardtanh, relu6 and nan_to_num: their NaN rules, their gradients at the
// bounds, and bounds that the integer types cannot hold.
#include <algorithm>
#include <limits>

#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/formula.h"

namespace tern {
namespace {

using namespace formula;
using detail::scalar_for;

/// A bound of clamp, exact for floats and integers; an open end is an infinity.
struct Bound {
  bool open;
  double value;
  int64_t integer;
  template <class T>
  T as() const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(std::clamp<int64_t>(integer, std::numeric_limits<T>::min(),
                                                std::is_signed_v<T> ? INT64_MAX : 255));
    else
      return static_cast<T>(value);
  }
};

Bound bound(std::optional<Scalar> given, double open, int64_t open_integer) {
  if (!given) return {true, open, open_integer};
  return {false, given->value, given->integer};
}

/// The gradient is 1 strictly between the bounds, as in PyTorch 2.15.
struct Clamp {
  static constexpr const char* kName = "clamp";
  static constexpr bool kIntegers = true;
  static constexpr Keep kKeep = Keep::input;
  Bound low, high;
  void note(Op& op) const {
    op.note("low", low.value, "low", low.integer, "high", high.value, "high", high.integer);
  }
  template <class T>
  T f(T x) const {
    T lo = low.as<T>(), hi = high.as<T>();
    T y = x < lo ? lo : x;  // keeps NaN
    return y > hi ? hi : y;
  }
  // An infinite x is inside if that side is open. NaN is never inside.
  template <class T>
  T df(const T& dy, const T& x) const {
    using C = Constant<T>;
    auto above = low.open ? ge(x, C(low.value)) : gt(x, C(low.value));
    auto below = high.open ? le(x, C(high.value)) : lt(x, C(high.value));
    return where(logical_and(above, below), dy, C(0));
  }
};

/// The op for a NaN bound: every element becomes NaN.
struct AllNan : detail::Flat {
  static constexpr const char* kName = "clamp";
  template <class T>
  T f(T) const {
    return std::numeric_limits<T>::quiet_NaN();
  }
};

struct Hardtanh : Clamp {
  static constexpr const char* kName = "hardtanh";
};
struct Relu6 : Clamp {
  static constexpr const char* kName = "relu6";
};

/// minimum or maximum. Equal elements share the gradient.
template <bool kLargest>
struct BestOfTwo {
  static constexpr const char* kName = kLargest ? "maximum" : "minimum";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::both, kNeedsB = Needs::both;
  auto f(auto a, auto b) const { return kLargest ? maximum(a, b) : minimum(a, b); }
  template <class T>
  T dfa(const T& dy, const T& a, const T& b) const {
    using C = Constant<T>;
    return where(eq(a, b), C(0.5) * dy, where(kLargest ? lt(a, b) : gt(a, b), C(0), dy));
  }
  auto dfb(const auto& dy, const auto& a, const auto& b) const { return dfa(dy, b, a); }
};

struct NanToNum {
  static constexpr const char* kName = "nan_to_num";
  static constexpr Keep kKeep = Keep::input;
  double nan;
  std::optional<double> positive, negative;
  void note(Op& op) const {
    op.note("nan", nan);
    if (positive) op.note("positive", *positive);
    if (negative) op.note("negative", *negative);
  }
  template <class T>
  T f(T x) const {
    constexpr T kMost = std::numeric_limits<T>::max();
    const T high = positive ? static_cast<T>(*positive) : kMost;
    const T low = negative ? static_cast<T>(*negative) : -kMost;
    const T finite = x > kMost ? high : x < -kMost ? low : x;
    return x != x ? static_cast<T>(nan) : finite;
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    return where(eq(x - x, Constant<T>(0)), dy, Constant<T>(0));
  }
};

bool is_nan(std::optional<Scalar> s) { return s && std::isnan(s->value); }

// Refuses a bound that would become the result although u8 cannot hold it.
void check_u8_bound(const char* op, std::optional<Scalar> bound, bool lower) {
  if (!bound || !bound->is_integer) return;
  const bool fits = lower ? bound->integer <= 255 : bound->integer >= 0;
  check(fits, "{}: {} as the {} bound does not fit u8 (0 to 255); convert with .to(DType::i64)", op,
        bound->integer, lower ? "lower" : "upper");
}

// minimum (if `smaller`) or maximum of a tensor and a number.
Tensor best_of(const char* op, const Tensor& a, Scalar b, bool smaller) {
  check_defined(op, a);
  const bool wraps = a.dtype() == DType::u8 && b.is_integer && (b.integer < 0 || b.integer > 255);
  if (wraps) {
    check_u8_bound(op, b, !smaller);
    return a.clone();  // the number is never chosen
  }
  return smaller ? minimum(a, scalar_for(a, b)) : maximum(a, scalar_for(a, b));
}

}  // namespace

Tensor clamp(const Tensor& x, std::optional<Scalar> low, std::optional<Scalar> high) {
  check_defined("clamp", x);
  check(low || high, "clamp: needs a lower bound, an upper bound, or both");
  const bool fraction = (low && !low->is_integer) || (high && !high->is_integer);
  const Tensor in = fraction ? x.to(detail::float_of(x.dtype())) : x;
  if (is_nan(low) || is_nan(high)) return unary(in, AllNan());
  if (in.dtype() == DType::u8) {
    check_u8_bound("clamp", low, true);
    check_u8_bound("clamp", high, false);
  }
  constexpr double kInf = std::numeric_limits<double>::infinity();
  return unary(in, Clamp{bound(low, -kInf, INT64_MIN), bound(high, kInf, INT64_MAX)});
}

Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  check_defined("clamp", x);
  check(low.defined() || high.defined(),
        "clamp: both bounds are undefined; needs a lower bound, an upper bound, or both");
  Tensor y = low.defined() ? maximum(x, low) : x;
  return high.defined() ? minimum(y, high) : y;
}

// Integral bounds keep integers as they are, as clamp does.
Tensor hardtanh(const Tensor& x, double low, double high) {
  check_defined("hardtanh", x);
  check(low <= high, "hardtanh: the lower bound {} is above the upper bound {}", low, high);
  const bool whole = low == std::floor(low) && high == std::floor(high);
  const bool fits = low >= -0x1p63 && high < 0x1p63;  // in i64
  if (!is_float(x.dtype()) && whole && fits)
    return clamp(x, static_cast<int64_t>(low), static_cast<int64_t>(high));
  return unary(x.to(detail::float_of(x.dtype())), Hardtanh{{{false, low, 0}, {false, high, 0}}});
}

Tensor relu6(const Tensor& x) { return unary(x, Relu6{{{false, 0, 0}, {false, 6, 6}}}); }

Tensor minimum(const Tensor& a, const Tensor& b) { return binary(a, b, BestOfTwo<false>()); }
Tensor maximum(const Tensor& a, const Tensor& b) { return binary(a, b, BestOfTwo<true>()); }
Tensor minimum(const Tensor& a, Scalar b) { return best_of("minimum", a, b, true); }
Tensor maximum(const Tensor& a, Scalar b) { return best_of("maximum", a, b, false); }

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  check_defined("nan_to_num", x);
  if (!is_float(x.dtype())) return x.clone();
  return unary(x, NanToNum{nan, posinf, neginf});
}

}  // namespace tern
