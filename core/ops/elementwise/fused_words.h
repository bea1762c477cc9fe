// The words of fused()'s formulas (fused.h): operators, functions and conditions, each with its
// slope rule. Argument-dependent lookup finds them. To make a word of an op on one number, put its
// struct in a header (unary.h, activations.h) and add a line here.
#pragma once

#include "tern/core/ops/elementwise/activations.h"
#include "tern/core/ops/elementwise/fused_sketch.h"
#include "tern/core/ops/elementwise/fused_term.h"
#include "tern/core/ops/elementwise/unary.h"

namespace tern::detail::fusion {

// ---- Arithmetic ------------------------------------------------------------------------------

// clang-format off
template <class V> [[gnu::always_inline]] inline V itself(const V& d) { return d; }
// clang-format on

template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto operator+(const A& a, const B& b) {
  using V = ValueOf<A, B>;
  return join(V(plain<V>(a) + plain<V>(b)), a, b, itself<V>, itself<V>);
}

template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto operator-(const A& a, const B& b) {
  using V = ValueOf<A, B>;
  return join(
      V(plain<V>(a) - plain<V>(b)), a, b, itself<V>, [](const V& d) { return V(-d); },
      [](const V& da, const V& db) { return V(da - db); });
}

template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto operator*(const A& a, const B& b) {
  using V = ValueOf<A, B>;
  const auto u = plain<V>(a);
  const auto v = plain<V>(b);
  return join(
      V(u * v), a, b, [&](const V& d) { return V(d * v); }, [&](const V& d) { return V(u * d); });
}

// d(a/b)/db = -(a/b)/b. In this order it overflows no earlier than a/b does.
template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto operator/(const A& a, const B& b) {
  using V = ValueOf<A, B>;
  const auto v = plain<V>(b);
  const V y = plain<V>(a) / v;
  return join(
      y, a, b, [&](const V& d) { return V(d / v); }, [&](const V& d) { return V(-(y / v) * d); });
}

template <Expression A>
[[gnu::always_inline]] inline auto operator-(const A& a) {
  using V = typename Traits<A>::Value;
  return chain(a, V(-a.value), [](const V& d) { return V(-d); });
}

template <Expression A>
[[gnu::always_inline]] inline A operator+(const A& a) {
  return a;
}

// ---- Functions of one expression, from the structs of their ops -------------------------------

/// An op applied to x; its struct may hold one number.
template <class Formula>
Sketch sketch_of([[maybe_unused]] const Formula& op, const Sketch& x) {
  if constexpr (std::is_empty_v<Formula>)
    return sketch(__PRETTY_FUNCTION__, x);
  else
    return sketch(__PRETTY_FUNCTION__, x, Sketch(std::bit_cast<double>(op)));
}

/// f of an op for numbers, the op itself for Tensors.
template <class Formula, class V, class Op>
[[gnu::always_inline]] inline V result(const Formula& formula, const Op& op, const V& x) {
  if constexpr (std::is_same_v<V, Tensor>)
    return op(x);
  else if constexpr (std::is_same_v<V, Sketch>)
    return sketch_of(formula, x);
  else
    return formula.f(x);
}

/// d times the slope at x; y is the result.
template <class Formula, class V>
[[gnu::always_inline]] inline V gradient(const Formula& formula, const V& d, const V& x,
                                         const V& y) {
  if constexpr (std::is_same_v<V, Sketch>)
    return d * sketch("slope", y);
  else
    return formula.df(d, Formula::kKeep == Keep::input ? x : y);
}

/// A word made of an op, Tensor -> Tensor, and its struct. For numbers the slope is computed once
/// for all inputs. With kPieces where() chooses each, since 0 times an infinity is not 0.
template <class Formula, bool kPieces = false, class V, unsigned kOn,
          class Op = Tensor (*)(const Tensor&)>
[[gnu::always_inline]] inline Term<V, kOn> word(const Term<V, kOn>& x, Op op,
                                                const Formula& formula = {}) {
  const V y = result(formula, op, x.value);
  auto df = [&](const V& d) __attribute__((always_inline)) {
    return gradient(formula, d, x.value, y);
  };
  if constexpr (kOn == 0 || kPieces || !Number<V>) {
    return chain(x, y, df);
  } else {
    const V slope = df(V(1));
    return chain(x, y, [&](const V& d) { return V(slope * d); });
  }
}

// clang-format off
template <Expression X>
[[gnu::always_inline]] inline X exp(const X& x) { return word<Exp>(x, tern::exp); }
template <Expression X>
[[gnu::always_inline]] inline X expm1(const X& x) { return word<Expm1>(x, tern::expm1); }
template <Expression X>
[[gnu::always_inline]] inline X log(const X& x) { return word<Log>(x, tern::log); }
template <Expression X>
[[gnu::always_inline]] inline X log1p(const X& x) { return word<Log1p>(x, tern::log1p); }
template <Expression X>
[[gnu::always_inline]] inline X sqrt(const X& x) { return word<Sqrt>(x, tern::sqrt); }
template <Expression X>
[[gnu::always_inline]] inline X rsqrt(const X& x) { return word<Rsqrt>(x, tern::rsqrt); }
template <Expression X>
[[gnu::always_inline]] inline X square(const X& x) { return word<Square>(x, tern::square); }
template <Expression X>
[[gnu::always_inline]] inline X abs(const X& x) { return word<Abs>(x, tern::abs); }
template <Expression X>
[[gnu::always_inline]] inline X sin(const X& x) { return word<Sin>(x, tern::sin); }
template <Expression X>
[[gnu::always_inline]] inline X cos(const X& x) { return word<Cos>(x, tern::cos); }
template <Expression X>
[[gnu::always_inline]] inline X erf(const X& x) { return word<Erf>(x, tern::erf); }
template <Expression X>
[[gnu::always_inline]] inline X tanh(const X& x) { return word<Tanh>(x, tern::tanh); }
template <Expression X>
[[gnu::always_inline]] inline X sigmoid(const X& x) { return word<Sigmoid>(x, tern::sigmoid); }
template <Expression X>
[[gnu::always_inline]] inline X softplus(const X& x) { return word<Softplus>(x, tern::softplus); }
template <Expression X>
[[gnu::always_inline]] inline X silu(const X& x) { return word<Silu>(x, tern::silu); }
// clang-format on

template <Expression X>
[[gnu::always_inline]] inline X relu(const X& x) {
  return word<Relu, /*kPieces=*/true>(x, tern::relu);
}

template <Expression X>
[[gnu::always_inline]] inline X gelu(const X& x) {
  return word<GeluErf>(x, [](const Tensor& t) { return tern::gelu(t); });
}

template <Expression X>
[[gnu::always_inline]] inline X gelu_tanh(const X& x) {
  return word<GeluTanh>(x, [](const Tensor& t) { return tern::gelu(t, Gelu::tanh); });
}

/// x^p for a number p.
template <Expression X>
[[gnu::always_inline]] inline X pow(const X& x, Number auto p) {
  return word(
      x, [=](const Tensor& t) { return tern::pow(t, p); }, FixedPower{static_cast<double>(p)});
}

// ---- Conditions ------------------------------------------------------------------------------

template <class V>
[[gnu::always_inline]] inline DType type_of(const V& x) {
  if constexpr (std::is_same_v<V, Tensor>)
    return x.dtype();
  else
    return DType::f32;
}

template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline DType joint_type(const A& a, const B& b) {
  if constexpr (Expression<A>)
    return type_of(a.value);
  else
    return type_of(b.value);
}

/// a < b for Tensors: swaps the operands if the first is a number.
template <class A, class B, class Words, class Swapped>
requires Operands<A, B>
[[gnu::always_inline]] inline auto compare(const A& a, const B& b, Words words, Swapped swapped) {
  using V = ValueOf<A, B>;
  if constexpr (Expression<A>)
    return Condition<V>{words(a.value, plain<V>(b)), joint_type(a, b)};
  else
    return Condition<V>{swapped(b.value, plain<V>(a)), joint_type(a, b)};
}

constexpr auto kLt = [](const auto& a, const auto& b) { return lt(a, b); };
constexpr auto kLe = [](const auto& a, const auto& b) { return le(a, b); };
constexpr auto kGt = [](const auto& a, const auto& b) { return gt(a, b); };
constexpr auto kGe = [](const auto& a, const auto& b) { return ge(a, b); };
constexpr auto kEq = [](const auto& a, const auto& b) { return eq(a, b); };
constexpr auto kNe = [](const auto& a, const auto& b) { return ne(a, b); };

template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto operator<(const A& a, const B& b) {
  return compare(a, b, kLt, kGt);
}
template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto operator<=(const A& a, const B& b) {
  return compare(a, b, kLe, kGe);
}
template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto operator>(const A& a, const B& b) {
  return compare(a, b, kGt, kLt);
}
template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto operator>=(const A& a, const B& b) {
  return compare(a, b, kGe, kLe);
}
template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto operator==(const A& a, const B& b) {
  return compare(a, b, kEq, kEq);
}
template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto operator!=(const A& a, const B& b) {
  return compare(a, b, kNe, kNe);
}

template <class V>
[[gnu::always_inline]] inline auto operator&&(const Condition<V>& a, const Condition<V>& b) {
  return Condition<V>{logical_and(a.is, b.is), a.type};
}
template <class V>
[[gnu::always_inline]] inline auto operator||(const Condition<V>& a, const Condition<V>& b) {
  return Condition<V>{logical_or(a.is, b.is), a.type};
}
template <class V>
[[gnu::always_inline]] inline auto operator!(const Condition<V>& a) {
  return Condition<V>{logical_not(a.is), a.type};
}

/// a and its slopes where the condition holds, else b and its slopes.
template <class V, Operand A, Operand B>
[[gnu::always_inline]] inline auto where(const Condition<V>& c, const A& a, const B& b) {
  using C = Constant<V>;
  if constexpr (Number<A> && Number<B> && std::is_same_v<V, Tensor>) {
    return Term<V, 0>{where(c.is, full({}, a, c.type), C(b)), {}};
  } else {
    auto rule_a = [&](const V& d) { return V(where(c.is, d, C(0))); };
    auto rule_b = [&](const V& d) { return V(where(c.is, C(0), d)); };
    auto both = [&](const V& da, const V& db) { return V(where(c.is, da, db)); };
    return join(V(where(c.is, plain<V>(a), plain<V>(b))), a, b, rule_a, rule_b, both);
  }
}

// ---- Bounds ----------------------------------------------------------------------------------

/// The slope is 1 strictly between the bounds, else 0.
template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto clamp(const Term<V, kOn>& x, Number auto low, Number auto high) {
  using C = Constant<V>;
  const C lo(low), hi(high);
  const auto inside = logical_and(gt(x.value, lo), lt(x.value, hi));
  const V y = minimum(V(maximum(x.value, lo)), hi);
  return chain(x, y, [&](const V& d) { return V(where(inside, d, C(0))); });
}

/// Whichever of the two `first` prefers. Equals share the slope. NaN propagates.
template <class V, class A, class B, class First>
[[gnu::always_inline]] inline auto pick(const V& y, const A& a, const B& b, First first) {
  using C = Constant<V>;
  const auto equal = (a == b).is;
  const auto of_b = first(b, a).is;
  auto half = [](const V& d) { return V(C(0.5) * d); };
  return join(
      y, a, b, [&](const V& d) { return V(where(equal, half(d), where(of_b, C(0), d))); },
      [&](const V& d) { return V(where(equal, half(d), where(of_b, d, C(0)))); },
      [&](const V& da, const V& db) {
        return V(where(equal, half(da + db), where(of_b, db, da)));
      });
}

template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto max(const A& a, const B& b) {
  using V = ValueOf<A, B>;
  if constexpr (!Expression<A>)
    return max(b, a);
  else
    return pick(V(maximum(a.value, plain<V>(b))), a, b,
                [](const auto& u, const auto& v) { return u > v; });
}

template <class A, class B>
requires Operands<A, B>
[[gnu::always_inline]] inline auto min(const A& a, const B& b) {
  using V = ValueOf<A, B>;
  if constexpr (!Expression<A>)
    return min(b, a);
  else
    return pick(V(minimum(a.value, plain<V>(b))), a, b,
                [](const auto& u, const auto& v) { return u < v; });
}

}  // namespace tern::detail::fusion
