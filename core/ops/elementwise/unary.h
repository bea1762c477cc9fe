// Functions of one number as ops (elementwise.h). Both their ops and the words of fused()
// (fused_words.h) use them, so that each derivative is written once. Activations: activations.h.
#pragma once

#include "tern/core/kernels/elementwise/arithmetic.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/formula.h"

namespace tern::detail {

struct Exp {
  static constexpr const char* kName = "exp";
  static constexpr Keep kKeep = Keep::output;
  [[gnu::always_inline]] auto f(auto x) const { return formula::exp(x); }
  [[gnu::always_inline]] auto df(const auto& dy, const auto& y) const { return dy * y; }
};

struct Expm1 {
  static constexpr const char* kName = "expm1";
  static constexpr Keep kKeep = Keep::output;
  [[gnu::always_inline]] auto f(auto x) const { return formula::expm1(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& y) const {
    return dy * (y + formula::Constant<T>(1));
  }
};

struct Log {
  static constexpr const char* kName = "log";
  static constexpr Keep kKeep = Keep::input;
  [[gnu::always_inline]] auto f(auto x) const { return formula::log(x); }
  [[gnu::always_inline]] auto df(const auto& dy, const auto& x) const { return dy / x; }
};

struct Log1p {
  static constexpr const char* kName = "log1p";
  static constexpr Keep kKeep = Keep::input;
  [[gnu::always_inline]] auto f(auto x) const { return formula::log1p(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    return dy / (x + formula::Constant<T>(1));
  }
};

struct Sqrt {
  static constexpr const char* kName = "sqrt";
  static constexpr Keep kKeep = Keep::output;
  [[gnu::always_inline]] auto f(auto x) const { return std::sqrt(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& y) const {
    return dy / (formula::Constant<T>(2) * y);
  }
};

struct Rsqrt {
  static constexpr const char* kName = "rsqrt";
  static constexpr Keep kKeep = Keep::output;
  [[gnu::always_inline]] auto f(auto x) const { return formula::rsqrt(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& y) const {
    return formula::Constant<T>(-0.5) * dy * (y * y * y);
  }
};

struct Square {
  static constexpr const char* kName = "square";
  static constexpr bool kIntegers = true;
  static constexpr Keep kKeep = Keep::input;
  [[gnu::always_inline]] auto f(auto x) const { return kernels::Multiply()(x, x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    return formula::Constant<T>(2) * dy * x;
  }
};

/// x^3: as exact as x * x * x, but much faster than pow.
struct Cube {
  static constexpr const char* kName = "pow";
  static constexpr Keep kKeep = Keep::input;
  void note(Op& op) const { op.note("exponent", 3.0); }
  [[gnu::always_inline]] auto f(auto x) const { return x * x * x; }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    return dy * (formula::Constant<T>(3) * (x * x));
  }
};

/// x^p for a number p.
struct FixedPower {
  static constexpr const char* kName = "pow";
  static constexpr Keep kKeep = Keep::input;
  double p;
  void note(Op& op) const { op.note("exponent", p); }
  template <class T>
  [[gnu::always_inline]] T f(T x) const {
    return formula::pow(x, static_cast<T>(p));
  }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    using namespace formula;
    using C = Constant<T>;
    const double less = p - static_cast<double>(p != 0);  // x^0 has slope 0, also at 0
    return dy * (C(p) * pow(x, C(less)));                 // g++ vectorises no ?: here
  }
};

struct Sin {
  static constexpr const char* kName = "sin";
  static constexpr Keep kKeep = Keep::input;
  [[gnu::always_inline]] auto f(auto x) const { return formula::sin(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    using namespace formula;
    return dy * cos(x);
  }
};

struct Cos {
  static constexpr const char* kName = "cos";
  static constexpr Keep kKeep = Keep::input;
  [[gnu::always_inline]] auto f(auto x) const { return formula::cos(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    using namespace formula;
    return -dy * sin(x);
  }
};

struct Erf {
  static constexpr const char* kName = "erf";
  static constexpr Keep kKeep = Keep::input;
  [[gnu::always_inline]] auto f(auto x) const { return formula::erf(x); }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    using namespace formula;
    constexpr double k2OverRootPi = 1.12837916709551257390;
    return dy * (Constant<T>(k2OverRootPi) * exp(-(x * x)));
  }
};

struct Abs {
  static constexpr const char* kName = "abs";
  static constexpr bool kIntegers = true;
  static constexpr Keep kKeep = Keep::input;
  template <class T>
  [[gnu::always_inline]] T f(T x) const {
    if constexpr (std::is_unsigned_v<T>)
      return x;
    else if constexpr (std::is_floating_point_v<T>)
      return std::abs(x);
    else
      return x < 0 ? kernels::Subtract()(T(0), x) : x;
  }
  template <class T>
  [[gnu::always_inline]] T df(const T& dy, const T& x) const {
    using namespace formula;
    return dy * sign(x);
  }
};

}  // namespace tern::detail
