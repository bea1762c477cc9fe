// The structs (elementwise.h) of add, sub, mul, div and neg, with their gradients.
#include "tern/core/kernels/elementwise/arithmetic.h"

#include "tern/core/ops/elementwise.h"

namespace tern {
namespace {

using detail::scalar_for;

struct AddOp {
  static constexpr const char* kName = "add";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::nothing, kNeedsB = Needs::nothing;
  auto f(auto a, auto b) const { return kernels::Add()(a, b); }
  auto dfa(const auto& dy, const auto&, const auto&) const { return dy; }
  auto dfb(const auto& dy, const auto&, const auto&) const { return dy; }
};

struct SubOp {
  static constexpr const char* kName = "sub";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::nothing, kNeedsB = Needs::nothing;
  auto f(auto a, auto b) const { return kernels::Subtract()(a, b); }
  auto dfa(const auto& dy, const auto&, const auto&) const { return dy; }
  auto dfb(const auto& dy, const auto&, const auto&) const { return -dy; }
};

struct MulOp {
  static constexpr const char* kName = "mul";
  static constexpr bool kIntegers = true;
  static constexpr Needs kNeedsA = Needs::b, kNeedsB = Needs::a;
  auto f(auto a, auto b) const { return kernels::Multiply()(a, b); }
  auto dfa(const auto& dy, const auto&, const auto& b) const { return dy * b; }
  auto dfb(const auto& dy, const auto& a, const auto&) const { return dy * a; }
};

struct DivOp {
  static constexpr const char* kName = "div";
  static constexpr Needs kNeedsA = Needs::b, kNeedsB = Needs::both;
  auto f(auto a, auto b) const { return a / b; }
  auto dfa(const auto& dy, const auto&, const auto& b) const { return dy / b; }
  // d(a/b)/db = -(a/b)/b. In this order it overflows no earlier than a/b does.
  auto dfb(const auto& dy, const auto& a, const auto& b) const { return -dy * ((a / b) / b); }
};

struct NegOp {
  static constexpr const char* kName = "neg";
  static constexpr bool kIntegers = true;
  static constexpr Keep kKeep = Keep::nothing;
  template <class T>
  T f(T x) const {
    if constexpr (std::is_floating_point_v<T>) return -x;
    return kernels::Subtract()(T{0}, x);
  }
  Tensor df(const Tensor& dy) const { return neg(dy); }
};

// Gives the number of a quotient the floating type of the result: as u8 it would wrap around.
Tensor divisible(const Tensor& other, Scalar s) {
  check_defined("div", other);
  return scalar(s, detail::float_of(other.dtype()));
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) { return binary(a, b, AddOp()); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary(a, b, SubOp()); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary(a, b, MulOp()); }
Tensor div(const Tensor& a, const Tensor& b) { return binary(a, b, DivOp()); }
Tensor add(const Tensor& a, Scalar b) { return add(a, scalar_for(a, b)); }
Tensor sub(const Tensor& a, Scalar b) { return sub(a, scalar_for(a, b)); }
Tensor sub(Scalar a, const Tensor& b) { return sub(scalar_for(b, a), b); }
Tensor mul(const Tensor& a, Scalar b) { return mul(a, scalar_for(a, b)); }
Tensor div(const Tensor& a, Scalar b) { return div(a, divisible(a, b)); }
Tensor div(Scalar a, const Tensor& b) { return div(divisible(b, a), b); }
Tensor neg(const Tensor& x) { return unary(x, NegOp()); }

}  // namespace tern
