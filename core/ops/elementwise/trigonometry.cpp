// Sines, cosines, tangents, their inverses, hyperbolic functions, logarithms to other bases. f32 is
// computed in double or by vmath.h, as vector code. f64 uses the C library, one element at a time.
#include <numbers>

#include "tern/core/ops/elementwise/activations.h"
#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/elementwise/unary.h"

namespace tern {
namespace {

using namespace formula;
using std::numbers::ln10;
using std::numbers::ln2;
using std::numbers::pi;

[[gnu::always_inline]] inline float tan(float x) { return vmath::sin(x) / vmath::cos(x); }
inline double tan(double x) { return std::tan(x); }

/// The arctangent for 0 <= a <= 1, in double precision. Method: Cephes' atan (Moshier).
[[gnu::always_inline]] inline double atan_to_one(double a) {
  const bool far = a > 0.66;
  const double x = far ? (a - 1) / (a + 1) : a, z = x * x;
  const double p = vmath::poly(z, -6.485021904942025371773e1, -1.228866684490136173410e2,
                               -7.500855792314704667340e1, -1.615753718733365076637e1,
                               -8.750608600031904122785e-1);
  const double q = vmath::poly(z, 1.945506571482613964425e2, 4.853903996359136964868e2,
                               4.328810604912902668951e2, 1.650270098316988542046e2,
                               2.485846490142306297962e1, 1.0);
  const double y = x + x * (z * p / q);
  return far ? pi / 4 + (y + 0.5 * 6.123233995736765886130e-17) : y;
}

[[gnu::always_inline]] inline float atan(float x) {
  const double a = vmath::abs(static_cast<double>(x));
  const double y = atan_to_one(a > 1 ? 1 / a : a);
  return std::copysign(static_cast<float>(a > 1 ? pi / 2 - y : y), x);
}
inline double atan(double x) { return std::atan(x); }

[[gnu::always_inline]] inline float atan2(float y, float x) {
  const double a = vmath::abs(static_cast<double>(y)), b = vmath::abs(static_cast<double>(x));
  const double most = a > b ? a : b, least = a > b ? b : a;
  double ratio = most == 0 ? 0.0 : least / most;
  ratio = least == most && most > 0 ? 1.0 : ratio;  // inf / inf is NaN
  double angle = atan_to_one(ratio);
  angle = a > b ? pi / 2 - angle : angle;
  angle = std::signbit(x) ? pi - angle : angle;
  const float nan = y + x;
  return ((y != y) | (x != x)) ? nan : std::copysign(static_cast<float>(angle), y);
}
inline double atan2(double y, double x) { return std::atan2(y, x); }

/// e^|x| - 1, limited to the range that a float result needs.
[[gnu::always_inline]] inline double growth(float x) {
  const double a = vmath::abs(static_cast<double>(x));
  return vmath::expm1(a > 200 ? 200.0 : a);
}

[[gnu::always_inline]] inline float sinh(float x) {
  const double e = growth(x);
  return std::copysign(static_cast<float>(0.5 * (e + e / (e + 1))), x);
}
inline double sinh(double x) { return std::sinh(x); }

[[gnu::always_inline]] inline float cosh(float x) {
  const double e = growth(x) + 1;
  return static_cast<float>(0.5 * (e + 1 / e));
}
inline double cosh(double x) { return std::cosh(x); }

[[gnu::always_inline]] inline float log2(float x) {
  return static_cast<float>(vmath::log(static_cast<double>(x)) * (1 / ln2));
}
inline double log2(double x) { return std::log2(x); }

[[gnu::always_inline]] inline float log10(float x) {
  return static_cast<float>(vmath::log(static_cast<double>(x)) * (1 / ln10));
}
inline double log10(double x) { return std::log10(x); }

struct Tan {
  static constexpr const char* kName = "tan";
  static constexpr Keep kKeep = Keep::output;
  auto f(auto x) const { return tan(x); }
  template <class T>
  T df(const T& dy, const T& y) const {
    return dy * (y * y + Constant<T>(1));
  }
};

struct Atan {
  static constexpr const char* kName = "atan";
  static constexpr Keep kKeep = Keep::input;
  auto f(auto x) const { return atan(x); }
  template <class T>
  T df(const T& dy, const T& x) const {
    return dy / (x * x + Constant<T>(1));
  }
};

/// d atan2(y, x) = (x dy - y dx) / (x^2 + y^2), and 0 at the origin.
struct Atan2 {
  static constexpr const char* kName = "atan2";
  static constexpr Needs kNeedsA = Needs::both, kNeedsB = Needs::both;
  auto f(auto y, auto x) const { return atan2(y, x); }
  template <class T>
  T dfa(const T& d, const T& y, const T& x) const {
    return d * (x / square_of_radius(y, x));
  }
  template <class T>
  T dfb(const T& d, const T& y, const T& x) const {
    return -d * (y / square_of_radius(y, x));
  }
  template <class T>
  static T square_of_radius(const T& y, const T& x) {
    T r = x * x + y * y;
    return where(eq(r, Constant<T>(0)), Constant<T>(1), r);
  }
};

struct Sinh {
  static constexpr const char* kName = "sinh";
  static constexpr Keep kKeep = Keep::input;
  auto f(auto x) const { return sinh(x); }
  auto df(const auto& dy, const auto& x) const { return dy * cosh(x); }
};

struct Cosh {
  static constexpr const char* kName = "cosh";
  static constexpr Keep kKeep = Keep::input;
  auto f(auto x) const { return cosh(x); }
  auto df(const auto& dy, const auto& x) const { return dy * sinh(x); }
};

struct Log2 {
  static constexpr const char* kName = "log2";
  static constexpr Keep kKeep = Keep::input;
  auto f(auto x) const { return log2(x); }
  template <class T>
  T df(const T& dy, const T& x) const {
    return dy / (x * Constant<T>(ln2));
  }
};

struct Log10 {
  static constexpr const char* kName = "log10";
  static constexpr Keep kKeep = Keep::input;
  auto f(auto x) const { return log10(x); }
  template <class T>
  T df(const T& dy, const T& x) const {
    return dy / (x * Constant<T>(ln10));
  }
};

struct LogAddExp {
  static constexpr const char* kName = "logaddexp";
  static constexpr Needs kNeedsA = Needs::both, kNeedsB = Needs::both;
  template <class T>
  T f(T a, T b) const {
    const T most = maximum(a, b), apart = a == b ? T(0) : -vmath::abs(a - b);  // inf - inf is NaN
    return most + log1p(exp(apart));
  }
  template <class T>
  T dfa(const T& dy, const T& a, const T& b) const {
    return dy * detail::steady_sigmoid(a - b);
  }
  template <class T>
  T dfb(const T& dy, const T& a, const T& b) const {
    return dy * detail::steady_sigmoid(b - a);
  }
};

struct LogAddExp2 {
  static constexpr const char* kName = "logaddexp2";
  static constexpr Needs kNeedsA = Needs::both, kNeedsB = Needs::both;
  template <class T>
  T f(T a, T b) const {
    const T most = maximum(a, b), apart = a == b ? T(0) : -vmath::abs(a - b);  // inf - inf is NaN
    return most + log1p(exp(apart * Constant<T>(ln2))) / Constant<T>(ln2);
  }
  template <class T>
  T dfa(const T& dy, const T& a, const T& b) const {
    return dy * detail::steady_sigmoid((a - b) * Constant<T>(ln2));
  }
  template <class T>
  T dfb(const T& dy, const T& a, const T& b) const {
    return dy * detail::steady_sigmoid((b - a) * Constant<T>(ln2));
  }
};

}  // namespace

Tensor sin(const Tensor& x) { return unary(x, detail::Sin()); }
Tensor cos(const Tensor& x) { return unary(x, detail::Cos()); }
Tensor tan(const Tensor& x) { return unary(x, Tan()); }
Tensor atan(const Tensor& x) { return unary(x, Atan()); }
Tensor atan2(const Tensor& y, const Tensor& x) { return binary(y, x, Atan2()); }
Tensor sinh(const Tensor& x) { return unary(x, Sinh()); }
Tensor cosh(const Tensor& x) { return unary(x, Cosh()); }
Tensor tanh(const Tensor& x) { return unary(x, detail::Tanh()); }
Tensor log2(const Tensor& x) { return unary(x, Log2()); }
Tensor log10(const Tensor& x) { return unary(x, Log10()); }
Tensor logaddexp(const Tensor& a, const Tensor& b) { return binary(a, b, LogAddExp()); }
Tensor logaddexp2(const Tensor& a, const Tensor& b) { return binary(a, b, LogAddExp2()); }

}  // namespace tern
