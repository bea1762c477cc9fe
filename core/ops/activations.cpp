// Activation functions; those that linear fuses are in activations.h.
#include "tern/core/ops/activations.h"

namespace tern {
namespace {

using namespace formula;
using detail::Keep;
using detail::unary;

struct Softplus {
  static constexpr const char* kName = "softplus";
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return softplus(x);
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    return dy * sigmoid(x);
  }
};

struct LeakyRelu {
  static constexpr const char* kName = "leaky_relu";
  static constexpr Keep kKeep = Keep::input;
  double slope;
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

}  // namespace

Tensor relu(const Tensor& x) { return unary(x, detail::Relu()); }
Tensor gelu(const Tensor& x, Gelu form) {
  check_defined("gelu", x);
  return form == Gelu::erf ? unary(x, detail::GeluErf()) : unary(x, detail::GeluTanh());
}
Tensor silu(const Tensor& x) { return unary(x, detail::Silu()); }
Tensor softplus(const Tensor& x) { return unary(x, Softplus()); }
Tensor leaky_relu(const Tensor& x, double slope) { return unary(x, LeakyRelu{slope}); }
Tensor elu(const Tensor& x, double alpha) { return unary(x, Elu{alpha}); }

}  // namespace tern
