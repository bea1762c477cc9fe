// How to write an elementwise op: a struct with its name, its function, its gradient and what the
// gradient reads. Pass it to unary() or binary().
//
//   struct Tanh {
//     static constexpr const char* kName = "tanh";
//     static constexpr Keep kKeep = Keep::output;
//     template <class T> T f(T x) const { return tanh(x); }
//     template <class T> T df(const T& dy, const T& y) const { return dy * (1 - y * y); }
//   };
//   Tensor tanh(const Tensor& x) { return unary(x, Tanh()); }
//
// df is a template over numbers and Tensors. An ordinary backward pass evaluates it on numbers, in
// one pass over memory. A backward pass that is itself recorded evaluates it on Tensors, by public
// ops, so second derivatives need no code. Functions for both are in ops/formula.h: write `using
// namespace formula`, and constants as `Constant<T>(1)`.
#pragma once

#include <array>

#include "tern/core/kernels/elementwise/elementwise.h"
#include "tern/core/ops/kernel_inputs.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern::detail {

/// The common type of a and b. Integers take a float's type, u8 with i64 gives i64, f32 with f64 is
/// an error.
DType promote(const char* op, DType a, DType b);

/// The type itself if it is floating, else f32.
inline DType float_of(DType t) { return is_float(t) ? t : DType::f32; }

/// The type of an op on `other` and a number: that of `other`, or f32 for a fraction with integers.
inline DType type_for(const Tensor& other, Scalar s) {
  return s.is_integer ? other.dtype() : float_of(other.dtype());
}

/// The number as a tensor of shape () in that type. It wraps around if it does not fit, which sums,
/// differences and products modulo 256 do not notice.
Tensor scalar_for(const Tensor& other, Scalar s);

/// The same with the exact value: an integer too large for u8 becomes i64.
Tensor exact_scalar_for(const Tensor& other, Scalar s);

/// The number as a tensor of shape (), for ops that store it: an error if it does not fit.
Tensor stored_scalar(const char* op, Scalar s, DType type);

/// x itself, or a contiguous copy if reading that in row-major order is faster (large transposed
/// x).
Tensor readable(const Tensor& x);

/// out = f(in...) in one pass, with f already compiled for its types.
void map(const char* op, const Fresh& out, const kernels::ElementwiseOp& f,
         std::initializer_list<std::reference_wrapper<const Tensor>> in);

/// out = f(in...) in one pass. out has type R; f takes its arguments as Ins.
template <class R, class... Ins, class F, class... Tensors>
void map(const char* op, const Fresh& out, const F& f, const Tensors&... in) {
  static_assert(sizeof...(Ins) == sizeof...(Tensors));
  map(op, out, kernels::elementwise_op<R, Ins...>(f), {in...});
}

/// Zeros in the shape of dy: the gradient of piecewise constant functions. They depend on dy, so
/// that second derivatives are zeros instead of an error.
Tensor zero_gradient(const Tensor& dy);

/// The tensor that a unary op keeps for df: df(dy), df(dy, x) or df(dy, y).
enum class Keep { nothing, input, output };

/// A base of piecewise constant unary ops.
struct Flat {
  static constexpr bool kIntegers = true;
  static constexpr Keep kKeep = Keep::nothing;
  Tensor df(const Tensor& dy) const { return zero_gradient(dy); }
};

template <class Formula>
Tensor unary_gradient(const Formula& op, Consumed dy, const Tensor& kept) {
  if constexpr (Formula::kKeep == Keep::nothing) {
    return op.df(dy.get());
  } else {
    if (grad_enabled()) return op.df(dy.get(), kept);
    Fresh dx = dy.reuse();
    dispatch_float(dx.dtype(), Formula::kName, [&]<class T>() {
      // Without always_inline, clang does not inline the longest formulas into the loop.
      auto df = [op](T d, T k) __attribute__((always_inline)) { return op.df(d, k); };
      map<T, T, T>(Formula::kName, dx, df, dy.get(), kept);
    });
    return not_differentiable(dx);
  }
}

/// Integers are computed in f32, unless the op has kIntegers: then they keep their type.
template <class Formula>
concept TakesIntegers = Formula::kIntegers;

template <class Formula>
Tensor unary(const Tensor& x, const Formula& formula) {
  Op op(Formula::kName, x);
  check_defined(Formula::kName, x);
  if constexpr (requires { formula.note(op); }) formula.note(op);
  Fresh y(x.shape(), TakesIntegers<Formula> ? x.dtype() : float_of(x.dtype()));
  auto forward = [&]<class T>() {
    auto f = [formula](T v) { return formula.f(v); };
    map<T, T>(Formula::kName, y, f, x);
  };
  if constexpr (TakesIntegers<Formula>)
    dispatch(y.dtype(), forward);
  else
    dispatch_float(y.dtype(), Formula::kName, forward);
  Saved kept;
  if (Formula::kKeep == Keep::input) kept = save(x);
  if (Formula::kKeep == Keep::output) kept = save(y);
  return op.record(y, [formula, kept = std::move(kept)](Consumed dy) {
    return unary_gradient(formula, std::move(dy), kept.get());
  });
}

/// Which inputs the gradient of a binary op reads.
enum class Needs { nothing, a, b, both };

/// df(dy, a, b). If it reads both a and b and is not recorded, it runs in one pass over memory.
/// Otherwise it runs as ops on Tensors.
template <Needs kNeeds, class Df>
Tensor binary_gradient(const char* name, Df df, Consumed dy, const Tensor& a, const Tensor& b) {
  if constexpr (kNeeds != Needs::both) {
    return df(dy.get(), a, b);
  } else {
    if (grad_enabled()) return df(dy.get(), a, b);
    Fresh out = dy.reuse();
    dispatch_float(out.dtype(), name, [&]<class T>() {
      auto numbers = [df](T d, T x, T y) { return df(d, x, y); };
      map<T, T, T, T>(name, out, numbers, dy.get(), a, b);
    });
    return not_differentiable(out);
  }
}

/// Memory for the result of a binary op: the broadcast shape and the promoted type, which is made
/// floating unless `integers`.
Fresh binary_result(const char* name, const Tensor& a, const Tensor& b, bool integers);

/// The inputs that a binary op keeps: those that a wanted gradient reads.
struct KeptInputs {
  Saved a, b;
};
KeptInputs keep_inputs(const Tensor& a, const Tensor& b, Needs gradient_of_a, Needs gradient_of_b);

/// A binary op has f(a, b), dfa(dy, a, b) and dfb(dy, a, b). kNeedsA and kNeedsB say which inputs
/// dfa and dfb read. A gradient that reads both runs in one pass. Any other is a single public op,
/// and gets an undefined Tensor for what it does not read. Integers: as in unary.
template <class Formula>
Tensor binary(const Tensor& a, const Tensor& b, const Formula& formula) {
  Op op(Formula::kName, a, b);
  if constexpr (requires { formula.note(op); }) formula.note(op);
  const Fresh y = binary_result(Formula::kName, a, b, TakesIntegers<Formula>);
  auto forward = [&]<class T>() {
    auto f = [formula](T u, T v) { return formula.f(u, v); };
    map<T, T, T>(Formula::kName, y, f, a, b);
  };
  if constexpr (TakesIntegers<Formula>)
    dispatch(y.dtype(), forward);
  else
    dispatch_float(y.dtype(), Formula::kName, forward);
  auto kept = keep_inputs(a, b, Formula::kNeedsA, Formula::kNeedsB);
  auto vjp = [formula, kept = std::move(kept)](Consumed dy, const Wants& wants) {
    Tensor u = kept.a.get(), v = kept.b.get();
    const Formula& op = formula;
    auto dfa = [op](const auto& d, const auto& p, const auto& q) { return op.dfa(d, p, q); };
    auto dfb = [op](const auto& d, const auto& p, const auto& q) { return op.dfb(d, p, q); };
    Gradients g(2);
    if (wants[0]) {
      Consumed last = wants[1] ? dy : std::move(dy);  // a second handle prevents reuse
      g[0] = binary_gradient<Formula::kNeedsA>(Formula::kName, dfa, std::move(last), u, v);
    }
    if (wants[1])
      g[1] = binary_gradient<Formula::kNeedsB>(Formula::kName, dfb, std::move(dy), u, v);
    return g;
  };
  return op.record(y, std::move(vjp));
}

/// u8 results of f(a, b), computed in the promoted type of a and b.
template <class F>
Tensor compare(const char* name, const Tensor& a, const Tensor& b, F f) {
  Op op(name, a, b);
  check_defined(name, a, b);
  Fresh y(broadcast_shapes(name, a.shape(), b.shape()), DType::u8);
  dispatch(promote(name, a.dtype(), b.dtype()), [&]<class T>() {
    auto number = [f](T u, T v) { return static_cast<uint8_t>(f(u, v)); };
    map<uint8_t, T, T>(name, y, number, a, b);
  });
  return op.not_differentiable(y);
}

}  // namespace tern::detail

namespace tern {
using detail::binary;
using detail::Keep;
using detail::Needs;
using detail::unary;
}  // namespace tern
