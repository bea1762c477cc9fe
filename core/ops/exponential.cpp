// Exponentials, logarithms, powers of a fixed degree.
#include "tern/core/kernels/arithmetic.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/formula.h"

namespace tern {
namespace {

using namespace formula;
using detail::Keep;
using detail::unary;

struct Exp {
  static constexpr const char* kName = "exp";
  static constexpr Keep kKeep = Keep::output;
  template <class T>
  T f(T x) const {
    return exp(x);
  }
  template <class T>
  T df(const T& dy, const T& y) const {
    return dy * y;
  }
};

struct Expm1 {
  static constexpr const char* kName = "expm1";
  static constexpr Keep kKeep = Keep::output;
  template <class T>
  T f(T x) const {
    return expm1(x);
  }
  template <class T>
  T df(const T& dy, const T& y) const {
    return dy * (y + Constant<T>(1));
  }
};

struct Log {
  static constexpr const char* kName = "log";
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return log(x);
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    return dy / x;
  }
};

struct Log1p {
  static constexpr const char* kName = "log1p";
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return log1p(x);
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    return dy / (x + Constant<T>(1));
  }
};

struct Sqrt {
  static constexpr const char* kName = "sqrt";
  static constexpr Keep kKeep = Keep::output;
  template <class T>
  T f(T x) const {
    return std::sqrt(x);
  }
  template <class T>
  T df(const T& dy, const T& y) const {
    return dy / (Constant<T>(2) * y);
  }
};

struct Rsqrt {
  static constexpr const char* kName = "rsqrt";
  static constexpr Keep kKeep = Keep::output;
  template <class T>
  T f(T x) const {
    return rsqrt(x);
  }
  template <class T>
  T df(const T& dy, const T& y) const {
    return Constant<T>(-0.5) * dy * (y * y * y);
  }
};

struct Square {
  static constexpr const char* kName = "square";
  static constexpr bool kIntegers = true;
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  T f(T x) const {
    return kernels::Multiply()(x, x);
  }
  template <class T>
  T df(const T& dy, const T& x) const {
    return Constant<T>(2) * dy * x;
  }
};

struct Reciprocal {
  static constexpr const char* kName = "reciprocal";
  static constexpr Keep kKeep = Keep::output;
  template <class T>
  T f(T x) const {
    return T(1) / x;
  }
  template <class T>
  T df(const T& dy, const T& y) const {
    return -dy * (y * y);
  }
};

}  // namespace

Tensor exp(const Tensor& x) { return unary(x, Exp()); }
Tensor expm1(const Tensor& x) { return unary(x, Expm1()); }
Tensor log(const Tensor& x) { return unary(x, Log()); }
Tensor log1p(const Tensor& x) { return unary(x, Log1p()); }
Tensor sqrt(const Tensor& x) { return unary(x, Sqrt()); }
Tensor rsqrt(const Tensor& x) { return unary(x, Rsqrt()); }
Tensor square(const Tensor& x) { return unary(x, Square()); }
Tensor reciprocal(const Tensor& x) { return unary(x, Reciprocal()); }

}  // namespace tern
