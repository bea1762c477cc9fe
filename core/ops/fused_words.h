// The words of fused()'s formulas (fused.h): operators, functions, conditions, each with its rule
// for slopes. Found by argument-dependent lookup.
#pragma once

#include "tern/core/ops/fused_term.h"

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

// d(a/b)/db = -(a/b)/b: in this order it overflows no earlier than a/b does.
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

// ---- Functions of one expression: the value y, and what a slope is multiplied with -----------

/// y with the slopes of x times slope(), which is asked for only where there are slopes.
template <class V, unsigned kOn, class Slope>
[[gnu::always_inline]] inline Term<V, kOn> scaled(const Term<V, kOn>& x, const V& y, Slope slope) {
  if constexpr (kOn == 0) {
    return {y, {}};
  } else {
    const V s = slope();
    return chain(x, y, [&](const V& d) { return V(s * d); });
  }
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto exp(const Term<V, kOn>& x) {
  const V y = exp(x.value);
  return scaled(x, y, [&] { return y; });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto expm1(const Term<V, kOn>& x) {
  const V y = expm1(x.value);
  return scaled(x, y, [&] { return V(y + Constant<V>(1)); });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto log(const Term<V, kOn>& x) {
  return scaled(x, V(log(x.value)), [&] { return V(Constant<V>(1) / x.value); });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto log1p(const Term<V, kOn>& x) {
  using C = Constant<V>;
  return scaled(x, V(log1p(x.value)), [&] { return V(C(1) / (x.value + C(1))); });
}

template <class V>
[[gnu::always_inline]] inline V root(const V& x) {
  if constexpr (std::is_same_v<V, float>)
    return __builtin_sqrtf(x);
  else if constexpr (std::is_same_v<V, double>)
    return __builtin_sqrt(x);
  else
    return sqrt(x);
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto sqrt(const Term<V, kOn>& x) {
  const V y = root(x.value);
  return scaled(x, y, [&] { return V(Constant<V>(0.5) / y); });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto rsqrt(const Term<V, kOn>& x) {
  const V y = rsqrt(x.value);
  return scaled(x, y, [&] { return V(Constant<V>(-0.5) * y / x.value); });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto square(const Term<V, kOn>& x) {
  return scaled(x, V(x.value * x.value), [&] { return V(Constant<V>(2) * x.value); });
}

/// x^p for a number p; the slope of x^0 is 0.
template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto pow(const Term<V, kOn>& x, Number auto p) {
  using C = Constant<V>;
  const double exponent = static_cast<double>(p);
  return scaled(x, V(pow(x.value, C(exponent))),
                [&] { return V(C(exponent) * pow(x.value, C(exponent == 0 ? 0 : exponent - 1))); });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto tanh(const Term<V, kOn>& x) {
  const V y = tanh(x.value);
  return scaled(x, y, [&] { return V(Constant<V>(1) - y * y); });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto sigmoid(const Term<V, kOn>& x) {
  const V y = sigmoid(x.value);
  return scaled(x, y, [&] { return V(y * (Constant<V>(1) - y)); });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto silu(const Term<V, kOn>& x) {
  using C = Constant<V>;
  const V s = sigmoid(x.value);
  return scaled(x, V(x.value * s), [&] { return V(s * (C(1) + x.value * (C(1) - s))); });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto softplus(const Term<V, kOn>& x) {
  return scaled(x, V(softplus(x.value)), [&] { return V(sigmoid(x.value)); });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto sin(const Term<V, kOn>& x) {
  return scaled(x, V(sin(x.value)), [&] { return V(cos(x.value)); });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto cos(const Term<V, kOn>& x) {
  return scaled(x, V(cos(x.value)), [&] { return V(-sin(x.value)); });
}

template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto erf(const Term<V, kOn>& x) {
  constexpr double k2OverRootPi = 1.12837916709551257390;
  return scaled(x, V(erf(x.value)),
                [&] { return V(Constant<V>(k2OverRootPi) * exp(-(x.value * x.value))); });
}

/// Phi(x) + x phi(x), as in core/ops/activations.h.
template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto gelu(const Term<V, kOn>& x) {
  using C = Constant<V>;
  return scaled(x, V(gelu(x.value)), [&] {
    const V cdf = C(0.5) + C(0.5) * erf(C(0.70710678118654752440) * x.value);
    const V pdf = C(0.39894228040143267794) * exp(C(-0.5) * x.value * x.value);
    return V(cdf + x.value * pdf);
  });
}

template <class V>
[[gnu::always_inline]] inline V gelu_tanh_of(const V& x) {
  if constexpr (std::is_same_v<V, Tensor>)
    return gelu(x, Gelu::tanh);
  else
    return gelu_tanh(x);
}

/// s + x s (1 - s) u', as there.
template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto gelu_tanh(const Term<V, kOn>& x) {
  using C = Constant<V>;
  return scaled(x, gelu_tanh_of(x.value), [&] {
    constexpr double kLinear = 2 * 0.79788456080286535588, kCubic = kLinear * 0.044715;
    const V square = x.value * x.value;
    const V s = sigmoid(x.value * (C(kLinear) + C(kCubic) * square));
    const V slope = C(kLinear) + C(3 * kCubic) * square;
    return V(s + x.value * slope * (s * (C(1) - s)));
  });
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

/// a < b as a word of Tensors takes it: the number, if there is one, stands behind.
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

/// a where the condition holds, else b; so do the slopes.
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

// ---- Functions made of pieces ----------------------------------------------------------------

/// NaN stays; the slope is 0 at 0.
template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto relu(const Term<V, kOn>& x) {
  using C = Constant<V>;
  const auto off = le(x.value, C(0));
  return chain(x, V(where(off, C(0), x.value)), [&](const V& d) { return V(where(off, C(0), d)); });
}

/// The slope is 0 at 0.
template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto abs(const Term<V, kOn>& x) {
  return scaled(x, V(abs(x.value)), [&] { return V(sign(x.value)); });
}

/// The slope is 1 strictly between the bounds, else 0.
template <class V, unsigned kOn>
[[gnu::always_inline]] inline auto clamp(const Term<V, kOn>& x, Number auto low, Number auto high) {
  using C = Constant<V>;
  const C lo(low), hi(high);
  const auto inside = logical_and(gt(x.value, lo), lt(x.value, hi));
  const V y = minimum(V(maximum(x.value, lo)), hi);
  return chain(x, y, [&](const V& d) { return V(where(inside, d, C(0))); });
}

/// The one that `first` prefers to the other. Equals share the slope; NaN spreads.
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
