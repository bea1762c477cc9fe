// Activation functions. Those that linear can fuse are in activations.h.
#include "tern/core/ops/elementwise/activations.h"

namespace tern {
namespace {

using namespace formula;
using detail::rest_of_sigmoid;
using detail::steady_sigmoid;

struct LeakyRelu {
  static constexpr const char* kName = "leaky_relu";
  static constexpr Keep kKeep = Keep::input;
  double slope;
  void note(Op& op) const { op.note("slope", slope); }
  template <class T>
  T f(T x) const {
    return x > T(0) ? x : static_cast<T>(slope) * x;
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    return where(gt(x, Constant<T>(0)), dy, dy * Constant<T>(slope));
  }
};

struct Elu {
  static constexpr const char* kName = "elu";
  static constexpr Keep kKeep = Keep::input;
  double alpha;
  void note(Op& op) const { op.note("alpha", alpha); }
  template <class T>
  T f(T x) const {
    return x > T(0) ? x : static_cast<T>(alpha) * expm1(x);
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    using C = Constant<T>;
    return where(gt(x, C(0)), dy, dy * (C(alpha) * exp(minimum(x, C(0)))));
  }
};

/// The derivative is t + x (1 - t^2) s, with t = tanh(softplus(x)) and s = sigmoid(x). With r = 1 -
/// s, t is (1 - r^2) / (1 + r^2), and 1 - t^2 is 4 r^2 / (1 + r^2)^2.
struct Mish {
  static constexpr const char* kName = "mish";
  static constexpr Keep kKeep = Keep::input;
  auto f(auto x) const { return x * tanh(softplus(x)); }
  template <class T>
  T df(const T& dy, const T& x) const {
    using C = Constant<T>;
    T s = steady_sigmoid(x), r = steady_sigmoid(-x), square = r * r, sum = C(1) + square;
    T rest = where(gt(x, C(0)), C(1) - square, s * (C(1) + r));  // 1 - r^2 without cancellation
    return dy * ((rest + C(4) * x * s * square / sum) / sum);
  }
};

struct Hardswish {
  static constexpr const char* kName = "hardswish";
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return x * minimum(maximum(x + T(3), T(0)), T(6)) * static_cast<T>(1.0 / 6);
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    using C = Constant<T>;
    T inside = dy * (x * C(1.0 / 3) + C(0.5));
    T above = where(lt(x, C(3)), inside, dy);
    return where(le(x, C(-3)), C(0), above);
  }
};

struct Hardsigmoid {
  static constexpr const char* kName = "hardsigmoid";
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return minimum(maximum(x + T(3), T(0)), T(6)) * static_cast<T>(1.0 / 6);
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    using C = Constant<T>;
    return where(logical_and(gt(x, C(-3)), lt(x, C(3))), dy * C(1.0 / 6), C(0));
  }
};

/// scale (x > 0 ? x : alpha (e^(x / width) - 1)).
struct ScaledElu {
  static constexpr Keep kKeep = Keep::input;
  double scale, alpha, width;
  void note(Op& op) const { op.note("scale", scale, "alpha", alpha, "width", width); }
  template <class T>
  T f(T x) const {
    const T below = static_cast<T>(alpha) * expm1(x * static_cast<T>(1 / width));
    return static_cast<T>(scale) * (x > T(0) ? x : below);
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    using C = Constant<T>;
    T below = C(scale * alpha / width) * exp(minimum(x, C(0)) * C(1 / width));
    return where(gt(x, C(0)), dy * C(scale), dy * below);
  }
};
struct Selu : ScaledElu {
  static constexpr const char* kName = "selu";
};
struct Celu : ScaledElu {
  static constexpr const char* kName = "celu";
};

struct Softsign {
  static constexpr const char* kName = "softsign";
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return x / (T(1) + abs(x));
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    T r = Constant<T>(1) + abs(x);
    return dy / (r * r);
  }
};

struct Tanhshrink {
  static constexpr const char* kName = "tanhshrink";
  static constexpr Keep kKeep = Keep::input;
  auto f(auto x) const { return x - tanh(x); }
  template <class T>
  T df(const T& dy, const T& x) const {
    T y = tanh(x);
    return dy * (y * y);
  }
};

/// 0 for |x| <= lambda.
struct Shrink {
  static constexpr Keep kKeep = Keep::input;
  double lambda;
  void note(Op& op) const { op.note("lambda", lambda); }
  template <class T>
  T df(const T& dy, const T& x) const {
    return where(le(abs(x), Constant<T>(lambda)), Constant<T>(0), dy);
  }
};
struct Softshrink : Shrink {
  static constexpr const char* kName = "softshrink";
  template <class T>
  T f(T x) const {
    const T l = static_cast<T>(lambda);
    return x > l ? x - l : x < -l ? x + l : x - x;  // keeps NaN
  }
};
struct Hardshrink : Shrink {
  static constexpr const char* kName = "hardshrink";
  template <class T>
  T f(T x) const {
    return abs(x) <= static_cast<T>(lambda) ? T(0) : x;
  }
};

struct LogSigmoid {
  static constexpr const char* kName = "log_sigmoid";
  static constexpr Keep kKeep = Keep::input;
  auto f(auto x) const { return -softplus(-x); }
  auto df(const auto& dy, const auto& x) const { return dy * steady_sigmoid(-x); }
};

struct Prelu {
  static constexpr const char* kName = "prelu";
  static constexpr Needs kNeedsA = Needs::both, kNeedsB = Needs::both;
  template <class T>
  T f(T x, T w) const {
    return x > T(0) ? x : w * x;
  }
  template <class T>
  T dfa(const T& dy, const T& x, const T& w) const {
    return where(gt(x, Constant<T>(0)), dy, dy * w);
  }
  template <class T>
  T dfb(const T& dy, const T& x, const T&) const {
    return where(gt(x, Constant<T>(0)), Constant<T>(0), dy * x);
  }
};

struct Glu {
  static constexpr const char* kName = "glu";
  static constexpr Needs kNeedsA = Needs::b, kNeedsB = Needs::both;
  auto f(auto a, auto b) const { return a * sigmoid(b); }
  auto dfa(const auto& dy, const auto&, const auto& b) const { return dy * steady_sigmoid(b); }
  template <class T>
  T dfb(const T& dy, const T& a, const T& b) const {
    T s = steady_sigmoid(b);
    return dy * (a * s * rest_of_sigmoid(s, b));
  }
};

}  // namespace

Tensor relu(const Tensor& x) { return unary(x, detail::Relu()); }
Tensor gelu(const Tensor& x, Gelu form) {
  check_defined("gelu", x);
  return form == Gelu::erf ? unary(x, detail::GeluErf()) : unary(x, detail::GeluTanh());
}
Tensor sigmoid(const Tensor& x) { return unary(x, detail::Sigmoid()); }
Tensor silu(const Tensor& x) { return unary(x, detail::Silu()); }
Tensor softplus(const Tensor& x) { return unary(x, detail::Softplus()); }
Tensor leaky_relu(const Tensor& x, double slope) { return unary(x, LeakyRelu{slope}); }
Tensor elu(const Tensor& x, double alpha) { return unary(x, Elu{alpha}); }
Tensor mish(const Tensor& x) { return unary(x, Mish()); }
Tensor hardswish(const Tensor& x) { return unary(x, Hardswish()); }
Tensor log_sigmoid(const Tensor& x) { return unary(x, LogSigmoid()); }
Tensor hardsigmoid(const Tensor& x) { return unary(x, Hardsigmoid()); }
Tensor selu(const Tensor& x) {
  return unary(x, Selu{{1.0507009873554804934193349852946, 1.6732632423543772848170429916717, 1}});
}
Tensor celu(const Tensor& x, double alpha) {
  check(alpha != 0, "celu: alpha must not be 0");
  return unary(x, Celu{{1, alpha, alpha}});
}
Tensor softsign(const Tensor& x) { return unary(x, Softsign()); }
Tensor tanhshrink(const Tensor& x) { return unary(x, Tanhshrink()); }
Tensor softshrink(const Tensor& x, double lambda) {
  check(lambda >= 0, "softshrink: lambda must not be negative, got {}", lambda);
  return unary(x, Softshrink{{lambda}});
}
Tensor hardshrink(const Tensor& x, double lambda) { return unary(x, Hardshrink{{lambda}}); }

Tensor prelu(const Tensor& x, const Tensor& weight) {
  check_defined("prelu", x, weight);
  const int64_t channels = x.ndim() >= 2 ? x.size(1) : 1;
  check(weight.ndim() <= 1 && (weight.numel() == 1 || weight.numel() == channels),
        "prelu: the weight must have shape (1,), or ({},) with one number per channel, got {}",
        channels, weight.shape());
  check(weight.dtype() == x.dtype() && is_float(x.dtype()),
        "prelu: x is {}, the weight {}; convert one with .to()", x.dtype(), weight.dtype());
  if (weight.numel() == 1) return binary(x, reshape(weight, {}), Prelu());
  Shape shape = Dims::filled(x.ndim() - 1, 1);
  shape[0] = channels;
  return binary(x, reshape(weight, shape), Prelu());
}

Tensor glu(const Tensor& x, int64_t axis) {
  check_defined("glu", x);
  const int a = normalize_axis("glu", axis, x.ndim());
  check(x.shape()[a] % 2 == 0, "glu: axis {} of shape {} cannot be split into halves", axis,
        x.shape());
  const int64_t half = x.shape()[a] / 2;
  return binary(narrow(x, a, 0, half), narrow(x, a, half, half), Glu());
}

}  // namespace tern
