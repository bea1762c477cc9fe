// Activation functions as structs (elementwise.h). Three places use them: the elementwise ops, the
// words of fused() (fused_words.h), and linear, also with packed weights, which applies them while
// the product is in the cache. If a formula has two branches, the branch not taken stays finite, so
// that 0 times its gradient is 0 in second derivatives too.
#pragma once

#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/formula.h"

namespace tern::detail {

// The derivative of a sigmoid y is y (1 - y), where 1 - y loses its digits as y rounds to 1.
// Tensors, which may be differentiated again, therefore compute 1 - y directly; numbers do not.

/// sigmoid(x).
template <formula::Number T>
[[gnu::always_inline]] inline T steady_sigmoid(T x) {
  return formula::sigmoid(x);
}
inline Tensor steady_sigmoid(const Tensor& x) {
  return grad_enabled() ? where(gt(x, 0), 1 - sigmoid(-x), sigmoid(x)) : sigmoid(x);
}

/// 1 - s for s = steady_sigmoid(x).
template <formula::Number T>
[[gnu::always_inline]] inline T rest_of_sigmoid(T s, T) {
  return T(1) - s;
}
inline Tensor rest_of_sigmoid(const Tensor&, const Tensor& x) { return steady_sigmoid(-x); }

struct Relu {
  static constexpr const char* kName = "relu";
  static constexpr bool kIntegers = true;
  static constexpr Keep kKeep = Keep::output;
  template <class T>
  [[gnu::always_inline]] T f(T x) const {
    return x <= T(0) ? T(0) : x;  // NaN stays NaN
  }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& y) const {
    using namespace formula;
    return where(le(y, Constant<T>(0)), Constant<T>(0), dy);
  }
};

/// x Phi(x), Phi the normal distribution function. The derivative is Phi(x) + x phi(x).
struct GeluErf {
  static constexpr const char* kName = "gelu";
  static constexpr Keep kKeep = Keep::input;
  void note(Op& op) const { op.note("tanh", false); }
  [[gnu::always_inline]] auto f(auto x) const { return formula::gelu(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    using namespace formula;
    using C = Constant<T>;
    T cdf = C(0.5) + C(0.5) * erf(C(0.70710678118654752440) * x);
    T pdf = C(0.39894228040143267794) * exp(C(-0.5) * x * x);
    return dy * (cdf + x * pdf);
  }
};

/// x s(u), where s is the sigmoid and u = 2 sqrt(2 / pi) (x + 0.044715 x^3). The derivative is s +
/// x s (1 - s) u'.
struct GeluTanh {
  static constexpr const char* kName = "gelu";
  static constexpr Keep kKeep = Keep::input;
  void note(Op& op) const { op.note("tanh", true); }
  [[gnu::always_inline]] auto f(auto x) const { return formula::gelu_tanh(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    using namespace formula;
    using C = Constant<T>;
    constexpr double kLinear = 2 * 0.79788456080286535588, kCubic = kLinear * 0.044715;
    T square = x * x;
    T u = x * (C(kLinear) + C(kCubic) * square);
    T s = steady_sigmoid(u);
    T slope = C(kLinear) + C(3 * kCubic) * square;
    return dy * (s + x * slope * (s * rest_of_sigmoid(s, u)));
  }
};

struct Silu {
  static constexpr const char* kName = "silu";
  static constexpr Keep kKeep = Keep::input;
  [[gnu::always_inline]] auto f(auto x) const { return x * formula::sigmoid(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    using namespace formula;
    using C = Constant<T>;
    T s = steady_sigmoid(x);
    return dy * (s * (C(1) + x * rest_of_sigmoid(s, x)));
  }
};

struct Tanh {
  static constexpr const char* kName = "tanh";
  static constexpr Keep kKeep = Keep::output;
  [[gnu::always_inline]] auto f(auto x) const { return formula::tanh(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& y) const {
    return dy * (formula::Constant<T>(1) - y * y);
  }
};

struct Sigmoid {
  static constexpr const char* kName = "sigmoid";
  static constexpr Keep kKeep = Keep::output;
  [[gnu::always_inline]] auto f(auto x) const { return formula::sigmoid(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& y) const {
    return dy * (y * (formula::Constant<T>(1) - y));
  }
};

struct Softplus {
  static constexpr const char* kName = "softplus";
  static constexpr Keep kKeep = Keep::input;
  [[gnu::always_inline]] auto f(auto x) const { return formula::softplus(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    return dy * steady_sigmoid(x);
  }
};

struct Identity {
  static constexpr Keep kKeep = Keep::nothing;
  auto f(auto x) const { return x; }
  auto df(const auto& dy, const auto&) const { return dy; }
};

/// Calls fn with the struct of an activation.
template <class Fn>
decltype(auto) with_activation(Activation a, Fn&& fn) {
  switch (a) {
    case Activation::relu:
      return fn(Relu());
    case Activation::gelu:
      return fn(GeluErf());
    case Activation::gelu_tanh:
      return fn(GeluTanh());
    case Activation::silu:
      return fn(Silu());
    case Activation::tanh:
      return fn(Tanh());
    case Activation::sigmoid:
      return fn(Sigmoid());
    case Activation::none:
      return fn(Identity());
  }
  fail_unhandled("Activation", a);
}

}  // namespace tern::detail
