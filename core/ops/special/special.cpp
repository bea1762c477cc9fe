// Error and gamma functions. All but erf compute in double for every type, one element at a time.
// Method: the C library's lgamma and erfc; Giles' polynomial (2010) and Halley's steps for erfinv;
// Cephes' psi and zeta (Moshier) for the derivatives of lgamma.
#include <array>
#include <numbers>

#include "tern/core/ops/elementwise/elementary.h"
#include "tern/core/ops/elementwise/unary.h"

namespace tern {
namespace {

using namespace formula;
using std::numbers::pi;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNotANumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kTwoOverRootPi = 1.12837916709551257390;

// Accurate to 1e-7 in f32: Giles, "Approximating the erfinv function", single precision. Closer to
// 1, to 2e-3: there erfc(x) is nearly e^(-x^2) / (x sqrt(pi)).
double erfinv_start(double y) {
  double w = -std::log((1 - y) * (1 + y));
  if (w > 16) {
    const double square = -std::log((1 - y) * std::sqrt(pi));
    return std::sqrt(square - 0.5 * std::log(square));
  }
  if (w < 5) {
    w -= 2.5;
    return y * vmath::poly(w, 1.50140941, 0.246640727, -0.00417768164, -0.00125372503,
                           0.00021858087, -4.39150654e-06, -3.5233877e-06, 3.43273939e-07,
                           2.81022636e-08);
  }
  w = std::sqrt(w) - 3;
  return y * vmath::poly(w, 2.83297682, 1.00167406, 0.00943887047, -0.0076224613, 0.00573950773,
                         -0.00367342844, 0.00134934322, 0.000100950558, -0.000200214257);
}

double erfinv_of(double y) {
  const double size = std::abs(y);
  if (!(size < 1)) return size == 1 ? std::copysign(kInfinity, y) : kNotANumber;
  double x = erfinv_start(size);
  for (int step = 0; step < 2; ++step) {
    // erfc, since 1 - erf(x) loses all digits near 1.
    const double error = size < 0.5 ? std::erf(x) - size : (1 - size) - std::erfc(x);
    const double newton = error / (kTwoOverRootPi * std::exp(-x * x));
    x -= newton / (1 + x * newton);
  }
  return std::copysign(x, y);
}

double lgamma_of(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);  // std::lgamma writes to a global variable
}

/// x minus the nearest integer, exactly; x - floor(x) would be 1 for -1e-20.
double from_whole(double x) { return x - std::round(x); }

double digamma_of(double x) {
  if (x == 0) return std::copysign(kInfinity, -x);
  if (x < 0) {
    const double apart = from_whole(x);
    if (apart == 0) return kNotANumber;
    return digamma_of(1 - x) - pi / std::tan(pi * apart);
  }
  double sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  const double z = 1 / (x * x);
  const double series = x < 1e17
                            ? z * vmath::poly(z, 8.33333333333333333333e-2,
                                              -8.33333333333333333333e-3, 3.96825396825396825397e-3,
                                              -4.16666666666666666667e-3, 7.57575757575757575758e-3,
                                              -2.10927960927960927961e-2, 8.33333333333333333333e-2)
                            : 0;
  return sum + std::log(x) - 0.5 / x - series;
}

// Hurwitz' zeta(s, q) = sum (q + k)^-s for q > 0 and integer s > 1, by Euler and Maclaurin.
double zeta_above_0(double s, double q) {
  if (q > 1e8 * s) return std::pow(q, 1 - s) / (s - 1) * (1 + (s - 1) / (2 * q));
  constexpr std::array kDivisors = {12.0,
                                    -720.0,
                                    30240.0,
                                    -1209600.0,
                                    47900160.0,
                                    -1.8924375803183791606e9,
                                    7.47242496e10,
                                    -2.950130727918164224e12,
                                    1.1646782814350067249e14,
                                    -4.5979787224074726105e15,
                                    1.8152105401943546773e17,
                                    -7.1661652561756670113e18};
  double sum = std::pow(q, -s), a = q, b = 0;
  for (int i = 0; i < 9 || a <= 9; ++i) {
    a += 1;
    b = std::pow(a, -s);
    sum += b;
    if (std::abs(b) < 0x1p-53 * std::abs(sum)) return sum;
  }
  sum += b * a / (s - 1) - 0.5 * b;
  double factor = 1, k = 0;
  for (double divisor : kDivisors) {
    factor *= s + k;
    b /= a;
    const double term = factor * b / divisor;
    sum += term;
    if (std::abs(term) < 0x1p-53 * std::abs(sum)) break;
    factor *= s + k + 1;
    b /= a;
    k += 2;
  }
  return sum;
}

// The same sum for any q. A negative q has terms (q + k)^-s on both sides of 0. Those on the right
// begin with q minus its floor. Those on the left mirror a sum that ends at -q.
double zeta_of(double s, double q) {
  if (q > 0) return zeta_above_0(s, q);
  if (q == std::floor(q)) return kInfinity;
  const double apart = from_whole(q), sign = std::fmod(s, 2) == 0 ? 1 : -1;
  const double right = apart > 0 ? apart : 1 + apart, left = apart > 0 ? 1 - apart : -apart;
  return zeta_above_0(s, right) + sign * zeta_above_0(s, left) - sign * zeta_above_0(s, 1 - q);
}

double polygamma_of(int64_t n, double x) {
  if (n == 0) return digamma_of(x);
  if (n == 1 && x < 0.5) {  // reflection keeps more digits
    const double s = std::sin(pi * from_whole(x));
    return pi * pi / (s * s) - zeta_of(2, 1 - x);
  }
  const double size = std::tgamma(static_cast<double>(n) + 1) * zeta_of(n + 1, x);
  return n % 2 ? size : -size;
}

struct Erfc {
  static constexpr const char* kName = "erfc";
  static constexpr Keep kKeep = Keep::input;
  auto f(auto x) const { return std::erfc(x); }
  template <class T>
  T df(const T& dy, const T& x) const {
    return dy * (Constant<T>(-kTwoOverRootPi) * exp(-(x * x)));
  }
};

struct Erfinv {
  static constexpr const char* kName = "erfinv";
  static constexpr Keep kKeep = Keep::output;
  template <class T>
  T f(T x) const {
    return static_cast<T>(erfinv_of(x));
  }
  template <class T>
  T df(const T& dy, const T& y) const {
    return dy * (Constant<T>(1 / kTwoOverRootPi) * exp(y * y));
  }
};

struct Polygamma {
  static constexpr const char* kName = "polygamma";
  static constexpr Keep kKeep = Keep::input;
  int64_t n;
  template <Number T>
  T f(T x) const {
    return static_cast<T>(polygamma_of(n, x));
  }
  template <Number T>
  T df(T dy, T x) const {
    return dy * static_cast<T>(polygamma_of(n + 1, x));
  }
  Tensor df(const Tensor& dy, const Tensor& x) const { return dy * polygamma(n + 1, x); }
};

struct Lgamma {
  static constexpr const char* kName = "lgamma";
  static constexpr Keep kKeep = Keep::input;
  template <Number T>
  T f(T x) const {
    return static_cast<T>(lgamma_of(x));
  }
  template <Number T>
  T df(T dy, T x) const {
    return dy * static_cast<T>(digamma_of(x));
  }
  Tensor df(const Tensor& dy, const Tensor& x) const { return dy * digamma(x); }
};

}  // namespace

Tensor erf(const Tensor& x) { return unary(x, detail::Erf()); }
Tensor erfc(const Tensor& x) { return unary(x, Erfc()); }
Tensor erfinv(const Tensor& x) { return unary(x, Erfinv()); }
Tensor lgamma(const Tensor& x) { return unary(x, Lgamma()); }
Tensor digamma(const Tensor& x) { return unary(x, Polygamma{0}); }

Tensor polygamma(int64_t n, const Tensor& x) {
  check(n >= 0, "polygamma: the order of the derivative is {}, less than 0", n);
  checked_sum("polygamma", n, 1);  // the order of the gradient
  return unary(x, Polygamma{n});
}

}  // namespace tern
