// Elements mixed, replaced or taken apart: lerp, nan_to_num, clamp by tensors, trunc, fmod, bits.
#include "tern/core/kernels/copy.h"
#include "tern/core/kernels/division.h"
#include "tern/core/ops/elementary.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/formula.h"

namespace tern {
namespace {

using namespace formula;
using detail::binary;
using detail::exact_scalar_for;
using detail::Keep;
using detail::map;
using detail::Needs;
using detail::unary;

struct Trunc {
  static constexpr const char* kName = "trunc";
  static constexpr bool kIntegers = true;
  static constexpr Keep kKeep = Keep::nothing;
  template <class T>
  T f(T x) const {
    if constexpr (std::is_floating_point_v<T>) return std::trunc(x);
    return x;
  }
  Tensor df(const Tensor& dy) const { return detail::zero_gradient(dy); }
};

/// a - b trunc(a / b), where the quotient is constant between jumps.
struct Fmod {
  static constexpr const char* kName = "fmod";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::nothing, kNeedsB = Needs::both;
  template <class T>
  T f(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return std::fmod(a, b);
    else if constexpr (std::is_signed_v<T>)
      return b == -1 ? T(0) : static_cast<T>(a % b);  // the least integer / -1 does not exist
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

struct Lerp {
  static constexpr const char* kName = "lerp";
  static constexpr Needs kNeedsA = Needs::nothing, kNeedsB = Needs::nothing;
  double weight;
  template <class T>
  T f(T a, T b) const {
    return mix(a, b, static_cast<T>(weight));
  }
  Tensor dfa(const Tensor& dy, const Tensor&, const Tensor&) const { return dy * (1 - weight); }
  Tensor dfb(const Tensor& dy, const Tensor&, const Tensor&) const { return dy * weight; }
  /// From the nearer end: exact at both.
  template <class T>
  static T mix(T a, T b, T w) {
    return std::abs(w) < T(0.5) ? a + w * (b - a) : b - (b - a) * (T(1) - w);
  }
};

struct NanToNum {
  static constexpr const char* kName = "nan_to_num";
  static constexpr Keep kKeep = Keep::input;
  double nan;
  std::optional<double> positive, negative;
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

// Bits have no meaning in floating numbers.
template <class F>
Tensor bits(const char* name, const Tensor& a, const Tensor& b, F f) {
  Op op(name, a, b);
  check_defined(name, a, b);
  for (const Tensor* t : {&a, &b})
    check(!is_float(t->dtype()), "{}: needs integers, got {}; convert with .to(DType::i64)", name,
          t->dtype());
  const DType type = detail::promote(name, a.dtype(), b.dtype());
  Fresh y(broadcast_shapes(name, a.shape(), b.shape()), type);
  dispatch(type, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) map<T, T, T>(name, y, f, a, b);
  });
  return op.not_differentiable(y);
}

void check_shift(const char* name, const Tensor& a, const Tensor& b) {
  check_defined(name, a, b);
  const bool negative = b.dtype() == DType::i64 && b.numel() > 0 && min(b).item<int64_t>() < 0;
  check(!negative, "{}: a shift by less than 0 bits; shift the other way", name);
}

}  // namespace

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

Tensor lerp(const Tensor& a, const Tensor& b, double weight) { return binary(a, b, Lerp{weight}); }

Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight) {
  Op op("lerp", a, b, weight);
  check_defined("lerp", a, b, weight);
  const DType type =
      detail::promote("lerp", detail::promote("lerp", a.dtype(), b.dtype()), weight.dtype());
  Shape shape = broadcast_shapes("lerp", a.shape(), b.shape());
  Fresh y(broadcast_shapes("lerp", shape, weight.shape()), type);
  dispatch_float(type, "lerp", [&]<class T>() {
    auto mix = [](T u, T v, T w) { return Lerp::mix(u, v, w); };
    map<T, T, T, T>("lerp", y, mix, a, b, weight);
  });
  return op.record(
      y, [a = save(a), b = save(b), w = save(weight)](const Tensor& dy, const Wants& wants) {
        Gradients g(3);
        if (wants[0]) g[0] = dy * (1 - w.get());
        if (wants[1]) g[1] = dy * w.get();
        if (wants[2]) g[2] = dy * (b.get() - a.get());
        return g;
      });
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf,
                  std::optional<double> neginf) {
  check_defined("nan_to_num", x);
  if (!is_float(x.dtype())) return x.clone();
  return unary(x, NanToNum{nan, posinf, neginf});
}

Tensor clamp(const Tensor& x, const Tensor& low, const Tensor& high) {
  check_defined("clamp", x);
  check(low.defined() || high.defined(), "clamp: needs a lower bound, an upper bound, or both");
  Tensor y = low.defined() ? maximum(x, low) : x;
  return high.defined() ? minimum(y, high) : y;
}

Tensor isinf(const Tensor& x) {
  check_defined("isinf", x);
  Op op("isinf", x);
  Fresh y(x.shape(), DType::u8);
  dispatch(x.dtype(), [&]<class T>() {
    auto infinite = [](T v) -> uint8_t {
      if constexpr (std::is_floating_point_v<T>) return std::abs(v) > std::numeric_limits<T>::max();
      return 0;
    };
    map<uint8_t, T>("isinf", y, infinite, x);
  });
  return op.not_differentiable(y);
}

Tensor bitwise_and(const Tensor& a, const Tensor& b) {
  return bits("bitwise_and", a, b, [](auto u, auto v) { return static_cast<decltype(u)>(u & v); });
}
Tensor bitwise_or(const Tensor& a, const Tensor& b) {
  return bits("bitwise_or", a, b, [](auto u, auto v) { return static_cast<decltype(u)>(u | v); });
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b) {
  return bits("bitwise_xor", a, b, [](auto u, auto v) { return static_cast<decltype(u)>(u ^ v); });
}
Tensor bitwise_not(const Tensor& x) {
  return bits("bitwise_not", x, x, [](auto u, auto) { return static_cast<decltype(u)>(~u); });
}

Tensor bitwise_left_shift(const Tensor& a, const Tensor& b) {
  check_shift("bitwise_left_shift", a, b);
  return bits("bitwise_left_shift", a, b, [](auto u, auto v) {
    using T = decltype(u);
    const bool beyond = static_cast<uint64_t>(v) >= 8 * sizeof(T);
    return beyond ? T(0) : static_cast<T>(static_cast<uint64_t>(u) << v);
  });
}

Tensor bitwise_right_shift(const Tensor& a, const Tensor& b) {
  check_shift("bitwise_right_shift", a, b);
  return bits("bitwise_right_shift", a, b, [](auto u, auto v) {
    using T = decltype(u);
    constexpr uint64_t kMost = 8 * sizeof(T) - 1;
    const bool beyond = static_cast<uint64_t>(v) > kMost;
    return static_cast<T>(beyond && std::is_unsigned_v<T> ? 0 : u >> (beyond ? kMost : v));
  });
}

}  // namespace tern
