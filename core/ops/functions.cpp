// Trigonometric and sigmoidal functions.
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/formula.h"

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

struct Tanh {
  static constexpr const char* kName = "tanh";
  static constexpr Keep kKeep = Keep::output;
  template <class T>
  T f(T x) const {
    return tanh(x);
  }
  template <class T>
  T df(const T& dy, const T& y) const {
    return dy * (Constant<T>(1) - y * y);
  }
};

struct Sigmoid {
  static constexpr const char* kName = "sigmoid";
  static constexpr Keep kKeep = Keep::output;
  template <class T>
  T f(T x) const {
    return sigmoid(x);
  }
  template <class T>
  T df(const T& dy, const T& y) const {
    return dy * (y * (Constant<T>(1) - y));
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
Tensor tanh(const Tensor& x) { return unary(x, Tanh()); }
Tensor sigmoid(const Tensor& x) { return unary(x, Sigmoid()); }
Tensor erf(const Tensor& x) { return unary(x, Erf()); }

}  // namespace tern
