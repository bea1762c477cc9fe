// Chains of elementwise ops in one pass over memory, written as one formula:
//
//   Tensor y = fused("swiglu", [](auto a, auto b) { return a * sigmoid(a) * b; }, x, gate);
//
// gives x * sigmoid(x) * gate, element by element in vector code, without intermediate tensors: one
// pass forward, and one backward for all gradients. The library differentiates the formula itself:
// it runs it on dual numbers (a value and its slope along each input). If the backward pass is
// itself recorded, the dual numbers hold Tensors, so second derivatives, gradcheck and create_graph
// work.
//
// - Inputs: one to eight tensors of any layout, broadcast as by `+`. The floating ones are all f32
//   or all f64. Integers (masks) are converted to floats and have no gradient. The result has the
//   broadcast shape and the floating type (f32 if all inputs are integers).
// - Kept for the backward pass: only the inputs that the slopes read. For x + y * mask that is the
//   mask, if x and y need gradients; x gets the result's gradient at no cost. Inputs with the same
//   slope, as a and b in (a + b) * c, share one gradient.
// - The formula runs for every element, in any order and on several threads, so it must not change
//   anything. Its parameters are `auto`. Each intermediate has its own type: name it with `const
//   auto`, do not assign. The formula returns one expression. Captured numbers are constants:
//   [p](auto x) { return x * p; }.
// - Words: + - * / with expressions and numbers; abs clamp cos erf exp expm1 gelu gelu_tanh log
//   log1p max min pow (to a number) relu rsqrt sigmoid silu sin softplus sqrt square tanh. Meaning
//   and gradients are those of ops.h (clamp takes two bounds; equals in max and min share). < <= >
//   >= == != give conditions, for && || ! and where(condition, a, b). No `if`. The branch that
//   where() does not take adds nothing to the gradient, even if infinite.
// - Errors, observers, profiles and the tape show `name`: a string literal, or one that lives as
//   long. Errors: undefined inputs, shapes that do not broadcast, f32 with f64.
// - Results depend neither on the number of threads nor, in f32, on the vector unit, unless you
//   compile with -ffast-math. They equal those of the single ops up to rounding.
//
// For vector code compile with the flags of tern::vector_code (CMake: target_link_libraries(mine
// PRIVATE tern::vector_code)); without them results are right, but slow. tern.h leaves this page
// out because it takes long to compile. Example: tests/consumer/fused_formula.cpp.
//
// Method: forward-mode automatic differentiation (Wengert 1964; Griewank & Walther, "Evaluating
// Derivatives", 2008, chapter 3), with one slope per input that an expression depends on.
#pragma once

#include <algorithm>
#include <array>
#include <utility>

#include "tern/core/kernels/elementwise/elementwise_many.h"
#include "tern/core/ops/composed_scope.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/elementwise/fused_sketch.h"
#include "tern/core/ops/elementwise/fused_words.h"

namespace tern {
namespace detail::fusion {

/// Input k as a dual number: its slope along itself is 1.
template <unsigned k, class V>
[[gnu::always_inline]] inline Term<V, 1u << k> seeded(const V& value, const V& one) {
  Term<V, 1u << k> x{value, {}};
  x.slopes[0] = one;
  return x;
}

// With `flatten` clang inlines the user's lambda into the loop.
template <class F, class T, class... Ts>
[[gnu::always_inline, gnu::flatten]] inline T value_of(const F& f, T x, Ts... xs) {
  return f(Term<T, 0>{x, {}}, Term<T, 0>{xs, {}}...).value;
}

/// The formula on dual numbers.
template <class F, class V, size_t... K>
[[gnu::always_inline, gnu::flatten]] inline auto dual_of(const F& f, const V& one,
                                                         std::index_sequence<K...>,
                                                         const std::array<V, sizeof...(K)>& x) {
  return f(seeded<K>(x[K], one)...);
}

/// Slope k of a result; `none` if it does not depend on input k.
template <unsigned k, class V, unsigned kOn>
[[gnu::always_inline]] inline V slope_of(const Term<V, kOn>& y, const V& none) {
  if constexpr ((kOn >> k & 1) != 0) return y.slopes[kIndex<kOn, k>];
  return none;
}

/// All slopes of the formula, `none` where a slope is 0 everywhere.
template <class F, class V, size_t... K>
[[gnu::always_inline]] inline std::array<V, sizeof...(K)> slopes_of(
    const F& f, const V& one, const V& none, std::index_sequence<K...> inputs,
    const std::array<V, sizeof...(K)>& x) {
  const auto y = dual_of(f, one, inputs, x);
  return {slope_of<K>(y, none)...};
}

/// The slopes of a formula as sketches: runs it once on them.
template <class F, size_t kInputs>
std::array<Sketch, kInputs> sketches_of(const F& f) {
  std::array<Sketch, kInputs> inputs;
  for (size_t k = 0; k < kInputs; ++k) inputs[k] = Sketch::input(static_cast<unsigned>(k));
  return slopes_of(f, Sketch::one(), Sketch::none(), std::make_index_sequence<kInputs>(), inputs);
}

/// dy times every slope, in one pass.
template <class T, class F, size_t kInputs>
struct Backward {
  F f;
  template <class... Ts>
  [[gnu::always_inline, gnu::flatten]] std::array<T, kInputs> operator()(T dy, Ts... x) const {
    std::array<T, kInputs> g =
        slopes_of(f, T(1), T(0), std::make_index_sequence<kInputs>(), std::array<T, kInputs>{x...});
    for (size_t k = 0; k < kInputs; ++k) g[k] = dy * g[k];
    return g;
  }
};

template <class T, class F>
struct Forward {
  F f;
  template <class... Ts>
  [[gnu::always_inline, gnu::flatten]] std::array<T, 1> operator()(Ts... x) const {
    return {value_of(f, x...)};
  }
};

/// The value of a formula whose kInputs inputs broadcast to `shape`.
template <class F, size_t kInputs>
Fresh computed(const char* name, const F& f, const Shape& shape, DType type,
               const std::array<Tensor, kInputs>& x) {
  Fresh y(shape, type);
  dispatch_float(type, name, [&]<class T>() {
    kernels::elementwise_many<T>(shape, std::array{y.data<T>()}, many_inputs(name, shape, x),
                                 Forward<T, F>{f});
  });
  return y;
}

/// The backward pass of a formula with kInputs inputs.
template <class F, size_t kInputs>
class Vjp {
 public:
  Vjp(const char* name, const F& f, const std::array<const Tensor*, kInputs>& inputs)
      : name_(name), f_(f), slopes_(sketches_of<F, kInputs>(f)) {
    uint32_t read = 0;
    for (size_t k = 0; k < kInputs; ++k)
      if (inputs[k]->requires_grad()) read |= slopes_[k].reads;
    for (size_t k = 0; k < kInputs; ++k)
      if ((read >> k & 1) != 0) kept_[k] = save(*inputs[k]);
    keeps_all_ = read == (1u << kInputs) - 1;
  }

  /// Lets y be recomputed from the kept inputs (RecomputeScope) if all are kept.
  void recompute(const Fresh& y) const {
    if (!keeps_all_) return;
    recompute_by(y, kept_,
                 [name = name_, f = f_, shape = y.shape(),
                  type = y.dtype()](const std::vector<Tensor>& from) {
                   std::array<Tensor, kInputs> x;
                   std::copy_n(from.begin(), kInputs, x.begin());
                   return computed(name, f, shape, type, x);
                 });
  }

  Gradients operator()(Consumed dy, const Wants& wants) const {
    // same[k]: the first input with the same slope as input k.
    std::array<size_t, kInputs> same;
    std::array<bool, kInputs> computed{};
    Gradients g(kInputs);
    for (size_t k = 0; k < kInputs; ++k) {
      same[k] = 0;
      while (!(slopes_[same[k]] == slopes_[k])) ++same[k];
      if (!wants[static_cast<int>(k)]) continue;
      if (slopes_[k] == Sketch::one())
        g[k] = dy.get();
      else
        computed[same[k]] = true;
    }
    Gradients found = grad_enabled() ? recorded(dy.get(), computed) : in_one_pass(dy, computed);
    for (size_t k = 0; k < kInputs; ++k)
      if (wants[static_cast<int>(k)] && !g[k].defined()) g[k] = found[same[k]];
    return g;
  }

 private:
  // An input that no slope reads was not kept: 1 takes its place.
  Tensor input(size_t k, DType type) const {
    Tensor x = kept_[k].get();
    return x.defined() ? x : scalar(1, type);
  }

  Gradients in_one_pass(const Consumed& dy, const std::array<bool, kInputs>& computed) const {
    const Tensor& d = dy.get();
    Gradients g(kInputs);
    std::array<std::optional<Fresh>, kInputs> out;
    bool first = d.is_contiguous(), any = false;
    for (size_t k = 0; k < kInputs; ++k) {
      if (!computed[k]) continue;
      out[k].emplace(first ? dy.reuse() : Fresh(d.shape(), d.dtype()));
      first = false;  // the next gradient may not overwrite dy
      any = true;
    }
    if (!any) return g;
    std::array<Tensor, kInputs + 1> in;
    in[0] = d;
    for (size_t k = 0; k < kInputs; ++k) in[k + 1] = input(k, d.dtype());
    dispatch_float(d.dtype(), name_, [&]<class T>() {
      std::array<T*, kInputs> to{};
      for (size_t k = 0; k < kInputs; ++k) to[k] = out[k] ? out[k]->template data<T>() : nullptr;
      kernels::elementwise_many<T>(d.shape(), to, many_inputs(name_, d.shape(), in),
                                   Backward<T, F, kInputs>{f_});
    });
    for (size_t k = 0; k < kInputs; ++k)
      if (out[k]) g[k] = not_differentiable(*out[k]);
    return g;
  }

  Gradients recorded(const Tensor& dy, const std::array<bool, kInputs>& computed) const {
    const DType type = dy.dtype();
    std::array<Tensor, kInputs> x;
    for (size_t k = 0; k < kInputs; ++k) {
      const Tensor t = input(k, type);
      x[k] = is_float(t.dtype()) ? t : t.to(type);
    }
    const std::array<Tensor, kInputs> slopes =
        slopes_of(f_, scalar(1, type), scalar(0, type), std::make_index_sequence<kInputs>(), x);
    Gradients g(kInputs);
    for (size_t k = 0; k < kInputs; ++k)
      if (computed[k]) g[k] = dy * slopes[k];
    return g;
  }

  const char* name_;
  F f_;
  std::array<Sketch, kInputs> slopes_;
  std::array<Saved, kInputs> kept_;
  bool keeps_all_ = false;
};

}  // namespace detail::fusion

namespace composed {

/// The same formula by the ops of ops.h, one after the other.
template <class F, std::same_as<Tensor>... Tensors>
Tensor fused(const char*, const F& formula, const Tensors&... x) {
  return formula(detail::fusion::Term<Tensor, 0>{x, {}}...).value;
}

}  // namespace composed

/// Computes formula(x...) in one pass over memory; see above.
template <class F, std::same_as<Tensor>... Tensors>
Tensor fused(const char* name, const F& formula, const Tensors&... x) {
  constexpr size_t kInputs = sizeof...(Tensors);
  static_assert(kInputs >= 1 && kInputs <= kernels::kMaxMany, "fused: takes 1 to 8 tensors");
  Op op(name, x...);
  check_defined(name, x...);
  if (detail::composing()) return composed::fused(name, formula, x...);
  const std::array<const Tensor*, kInputs> inputs{&x...};
  Shape shape = inputs[0]->shape();
  DType type = inputs[0]->dtype();
  for (size_t k = 1; k < kInputs; ++k) {
    shape = broadcast_shapes(name, shape, inputs[k]->shape());
    type = detail::promote(name, type, inputs[k]->dtype());
  }
  const Fresh y =
      detail::fusion::computed(name, formula, shape, detail::float_of(type), std::array{x...});
  if (!op.recording()) return op.not_differentiable(y);
  detail::fusion::Vjp<F, kInputs> vjp(name, formula, inputs);
  if (detail::recomputing()) vjp.recompute(y);
  return op.record(y, std::move(vjp));
}

}  // namespace tern
