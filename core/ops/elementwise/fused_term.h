// The dual numbers on which formulas of fused() (fused.h) run: a value with slopes along some of
// the inputs. A word defines its value and its slope rule once, for numbers, Tensors and sketches
// (fused_sketch.h).
#pragma once

#include <array>
#include <bit>
#include <concepts>
#include <type_traits>
#include <utility>

#include "tern/core/ops/formula.h"

namespace tern::detail::fusion {

// The words for numbers. Argument-dependent lookup finds those for Tensors and sketches.
using formula::Constant, formula::Number;
using formula::eq, formula::ge, formula::gt, formula::le, formula::logical_and,
    formula::logical_not, formula::logical_or, formula::lt, formula::maximum, formula::minimum,
    formula::ne, formula::where;

/// A value, with its slope along input k for each bit k of kOn.
template <class V, unsigned kOn>
struct Term {
  V value;
  std::array<V, std::popcount(kOn)> slopes;
};

/// The result of a comparison. V = Tensor: u8, from operands of this type.
template <class V>
struct Condition {
  std::conditional_t<Number<V>, bool, V> is;
  DType type = DType::f32;
};

/// The position of input k among the slopes.
template <unsigned kOn, unsigned k>
constexpr size_t kIndex = static_cast<size_t>(std::popcount(kOn&((1u << k) - 1)));

template <class X>
struct Traits {};
template <class V, unsigned kMask>
struct Traits<Term<V, kMask>> {
  using Value = V;
  static constexpr unsigned kOn = kMask;
};

template <class X>
concept Expression = requires {
  Traits<X>::kOn;
};
template <class X>
concept Operand = Expression<X> || Number<X>;
template <class A, class B>
concept Operands = Operand<A> && Operand<B> &&(Expression<A> || Expression<B>);

template <class X>
constexpr unsigned kMaskOf = 0;
template <class V, unsigned kOn>
constexpr unsigned kMaskOf<Term<V, kOn>> = kOn;

/// The common value type of two operands, one of which may be a number.
template <class A, class B>
struct JointValue : JointValue<B, A> {};
template <class V, unsigned kOn, class B>
struct JointValue<Term<V, kOn>, B> {
  using type = V;
};
template <class A, class B>
using ValueOf = typename JointValue<A, B>::type;

template <class V, unsigned kOn>
[[gnu::always_inline]] inline const V& plain(const Term<V, kOn>& x) {
  return x.value;
}
template <class V>
[[gnu::always_inline]] inline Constant<V> plain(Number auto x) {
  if constexpr (std::is_same_v<V, Tensor>)
    return Scalar(x);
  else
    return Constant<V>(x);
}
template <class V, Expression X>
[[gnu::always_inline]] inline const V& plain(const X& x) {
  return x.value;
}

constexpr auto kSlopeNumbers = std::make_integer_sequence<unsigned, 8>();

/// y with the slopes of x, each passed through `rule`.
template <class V, unsigned kOn, class Rule>
[[gnu::always_inline]] inline Term<V, kOn> chain(const Term<V, kOn>& x, const V& y, Rule rule) {
  return [&]<size_t... i>(std::index_sequence<i...>) __attribute__((always_inline)) {
    return Term<V, kOn>{y, {rule(x.slopes[i])...}};
  }
  (std::make_index_sequence<std::popcount(kOn)>());
}

/// The slope of y along input k: rule_a of a's slope, rule_b of b's, or `both` of the two.
template <unsigned k, class R, class A, class B, class RuleA, class RuleB, class Both>
[[gnu::always_inline]] inline void join_one(R& r, const A& a, const B& b, RuleA rule_a,
                                            RuleB rule_b, Both both) {
  constexpr unsigned kA = kMaskOf<A>, kB = kMaskOf<B>;
  if constexpr ((kA >> k & 1) && (kB >> k & 1)) {
    r.slopes[kIndex<kA | kB, k>] = both(a.slopes[kIndex<kA, k>], b.slopes[kIndex<kB, k>]);
  } else if constexpr ((kA >> k & 1) != 0) {
    r.slopes[kIndex<kA | kB, k>] = rule_a(a.slopes[kIndex<kA, k>]);
  } else if constexpr ((kB >> k & 1) != 0) {
    r.slopes[kIndex<kA | kB, k>] = rule_b(b.slopes[kIndex<kB, k>]);
  }
}

template <class V, class A, class B, class RuleA, class RuleB, class Both>
[[gnu::always_inline]] inline auto join(const V& y, const A& a, const B& b, RuleA rule_a,
                                        RuleB rule_b, Both both) {
  Term<V, kMaskOf<A> | kMaskOf<B>> r{y, {}};
  [&]<unsigned... k>(std::integer_sequence<unsigned, k...>) __attribute__((always_inline)) {
    (join_one<k>(r, a, b, rule_a, rule_b, both), ...);
  }
  (kSlopeNumbers);
  return r;
}

/// The same for words whose slopes add up.
template <class V, class A, class B, class RuleA, class RuleB>
[[gnu::always_inline]] inline auto join(const V& y, const A& a, const B& b, RuleA rule_a,
                                        RuleB rule_b) {
  auto both = [=](const V& da, const V& db) __attribute__((always_inline)) {
    return rule_a(da) + rule_b(db);
  };
  return join(y, a, b, rule_a, rule_b, both);
}

}  // namespace tern::detail::fusion
