// Trigonometric and sigmoidal functions.
#include "tern/core/ops/activations.h"

namespace tern {
namespace {

using namespace formula;
using detail::Keep;
using detail::unary;

struct Sin {
  static constexpr const char* kName = "sin";
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return sin(x);
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    return dy * cos(x);
  }
};

struct Cos {
  static constexpr const char* kName = "cos";
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return cos(x);
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    return -dy * sin(x);
  }
};

struct Erf {
  static constexpr const char* kName = "erf";
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return erf(x);
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    constexpr double k2OverRootPi = 1.12837916709551257390;
    return dy * (Constant<T>(k2OverRootPi) * exp(-(x * x)));
  }
};

}  // namespace

Tensor sin(const Tensor& x) { return unary(x, Sin()); }
Tensor cos(const Tensor& x) { return unary(x, Cos()); }
Tensor tanh(const Tensor& x) { return unary(x, detail::Tanh()); }
Tensor sigmoid(const Tensor& x) { return unary(x, detail::Sigmoid()); }
Tensor erf(const Tensor& x) { return unary(x, Erf()); }

}  // namespace tern
