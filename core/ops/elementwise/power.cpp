// pow, floor_divide and remainder as in Python, and fmod as in C. Integers follow rules of their
// own: powers wrap around, and division by zero is an error.
#include "tern/core/kernels/creation/copy.h"
#include "tern/core/kernels/elementwise/division.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/elementwise/unary.h"

namespace tern {
namespace {

using namespace formula;
using detail::exact_scalar_for;
using detail::scalar_for;

// An operand in the type of the gradient. Only recorded gradients meet integers.
template <class T>
T typed_as(const T& x, const T&) {
  return x;
}
Tensor typed_as(const Tensor& x, const Tensor& dy) { return x.to(dy.dtype()); }

struct Power {
  static constexpr const char* kName = "pow";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::both, kNeedsB = Needs::both;
  template <class T>
  T f(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return kernels::integer_power(a, b);
    else
      return pow(a, b);
  }
  // b a^(b-1), and 0 for b = 0 with any a.
  template <class T>
  T dfa(const T& dy, const T& a, const T& exponent) const {
    using C = Constant<T>;
    const T b = typed_as(exponent, dy);
    auto flat = eq(b, C(0));
    return where(flat, C(0), dy * (b * pow(a, where(flat, C(1), b - C(1)))));
  }
  // a^b log a, and 0 for a = 0 with non-negative b.
  template <class T>
  T dfb(const T& dy, const T& base, const T& b) const {
    using C = Constant<T>;
    const T a = typed_as(base, dy);
    auto flat = logical_and(eq(a, C(0)), ge(b, C(0)));
    return where(flat, C(0), dy * (pow(a, b) * log(where(flat, C(1), a))));
  }
};

struct ZerothPower : detail::Flat {
  static constexpr const char* kName = "pow";
  template <class T>
  T f(T) const {
    return T(1);
  }
  void note(Op& op) const { op.note("exponent", 0.0); }
};

struct FloorDivide {
  static constexpr const char* kName = "floor_divide";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::nothing, kNeedsB = Needs::nothing;
  auto f(auto a, auto b) const { return kernels::floor_divide(a, b); }
  Tensor dfa(const Tensor& dy, const Tensor&, const Tensor&) const {
    return detail::zero_gradient(dy);
  }
  Tensor dfb(const Tensor& dy, const Tensor&, const Tensor&) const {
    return detail::zero_gradient(dy);
  }
};

/// a - b floor(a / b); the gradient treats the floor as constant.
struct Remainder {
  static constexpr const char* kName = "remainder";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::nothing, kNeedsB = Needs::both;
  auto f(auto a, auto b) const { return kernels::remainder(a, b); }
  Tensor dfa(const Tensor& dy, const Tensor&, const Tensor&) const { return dy; }
  template <class T>
  T dfb(const T& dy, const T& a, const T& b) const {
    return -dy * floor_quotient(a, b);
  }
  static auto floor_quotient(Number auto a, Number auto b) { return kernels::floor_divide(a, b); }
  static Tensor floor_quotient(const Tensor& a, const Tensor& b) { return floor_divide(a, b); }
};

/// a - b trunc(a / b); the gradient treats the quotient as constant.
struct Fmod {
  static constexpr const char* kName = "fmod";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::nothing, kNeedsB = Needs::both;
  template <class T>
  T f(T a, T b) const {
    if constexpr (std::is_floating_point_v<T>)
      return kernels::fmod(a, b);
    else if constexpr (std::is_signed_v<T>)
      return b == -1 ? T(0) : static_cast<T>(a % b);  // the lowest integer / -1 overflows
    else
      return static_cast<T>(a % b);
  }
  Tensor dfa(const Tensor& dy, const Tensor&, const Tensor&) const { return dy; }
  auto dfb(Number auto dy, Number auto a, Number auto b) const { return -dy * std::trunc(a / b); }
  Tensor dfb(const Tensor& dy, const Tensor& a, const Tensor& b) const {
    return -dy * trunc(a / b);
  }
};

// Checks that no integer is divided by zero, then applies op.
template <class Op>
Tensor divide(const Tensor& a, const Tensor& b, const Op& op) {
  check_defined(Op::kName, a, b);
  bool integers = !is_float(a.dtype()) && !is_float(b.dtype());
  if (integers && numel(broadcast_shapes(Op::kName, a.shape(), b.shape())) > 0) {
    Tensor divisor = b.contiguous();
    check(!kernels::any_zero(detail::input_of(divisor).data, b.dtype(), b.numel()),
          "{}: the divisor of shape {} has a zero, which integers cannot be divided by; convert "
          "with .to(DType::f32)",
          Op::kName, b.shape());
  }
  return binary(a, b, op);
}

}  // namespace

Tensor pow(const Tensor& a, const Tensor& b) { return binary(a, b, Power()); }

Tensor pow(const Tensor& a, Scalar b) {
  check_defined("pow", a);
  if (!is_float(a.dtype()) && !b.is_integer) return pow(a.to(DType::f32), b);
  if (!is_float(a.dtype()))
    check(b.integer >= 0,
          "pow: integers to the power {} are fractions; convert with .to(DType::f32)", b.integer);
  if (b.value == 0) return unary(a, ZerothPower());
  if (b.value == 2) return square(a);
  if (!is_float(a.dtype())) return pow(a, detail::stored_scalar("pow", b, a.dtype()));
  if (b.value == 0.5) return sqrt(a);
  if (b.value == -0.5) return rsqrt(a);
  if (b.value == -1) return reciprocal(a);
  if (b.value == 3) return unary(a, detail::Cube());
  return unary(a, detail::FixedPower{b.value});
}

Tensor pow(Scalar a, const Tensor& b) { return pow(scalar_for(b, a), b); }

Tensor floor_divide(const Tensor& a, const Tensor& b) { return divide(a, b, FloorDivide()); }
Tensor remainder(const Tensor& a, const Tensor& b) { return divide(a, b, Remainder()); }
Tensor fmod(const Tensor& a, const Tensor& b) { return divide(a, b, Fmod()); }

// Divides by the exact number, even if u8 cannot hold it; only the result wraps around.
Tensor floor_divide(const Tensor& a, Scalar b) {
  return floor_divide(a, exact_scalar_for(a, b)).to(detail::type_for(a, b));
}
Tensor remainder(const Tensor& a, Scalar b) {
  return remainder(a, exact_scalar_for(a, b)).to(detail::type_for(a, b));
}
Tensor fmod(const Tensor& a, Scalar b) {
  return fmod(a, exact_scalar_for(a, b)).to(detail::type_for(a, b));
}

}  // namespace tern
