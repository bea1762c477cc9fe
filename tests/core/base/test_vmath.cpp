// Every function of vmath.h against the C library in long double, at every vector level. Arguments
// are random over all magnitudes, denser where the function varies, and include edge cases.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/vmath.h"

namespace tern::test_vmath {

namespace {

using Real = long double;
constexpr VectorLevel kLevels[] = {VectorLevel::kBaseline, VectorLevel::kAvx2,
                                   VectorLevel::kAvx512};

/// The distance between y and the true value, in units of the last place of T at that value.
template <class T>
double ulps(T y, Real truth) {
  if (std::isnan(y) || std::isnan(truth)) return std::isnan(y) && std::isnan(truth) ? 0 : 1e30;
  const T rounded = static_cast<T>(truth);
  if (std::isinf(y) || std::isinf(rounded)) {
    if (y == rounded) return 0;
    // Overflow one step too early or too late counts as an error of one unit.
    const Real most = std::numeric_limits<T>::max();
    return std::abs(truth) > most * (1 - std::numeric_limits<T>::epsilon()) &&
                   std::abs(y) >= static_cast<T>(most) && (y > 0) == (truth > 0)
               ? 1
               : 1e30;
  }
  int exponent = truth == 0 ? -100000 : std::ilogb(truth);
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent - 1);
  const Real unit = std::ldexp(Real(1), exponent - (std::numeric_limits<T>::digits - 1));
  return static_cast<double>(std::abs(Real(y) - truth) / unit);
}

/// `n` random bit patterns, `n` numbers in [low, high], `n` around 1, and edge cases.
template <class T>
std::vector<T> arguments(double low, double high, int64_t n = 60000) {
  std::vector<T> x(n);
  Rng rng(23);
  rng.fill_uniform(x.data(), n, low, high);
  for (int64_t i = 0; i < n; ++i)
    x.push_back(std::bit_cast<T>(static_cast<vmath::BitsOf<T>>(rng.next_u64())));
  for (int64_t i = 0; i < n; ++i)  // magnitudes around 1
    x.push_back(static_cast<T>((rng.below(2) ? 1 : -1) * std::exp2(rng.uniform(-40, 10))));
  using Limits = std::numeric_limits<T>;
  for (T edge : {T(0), T(1), T(0.5), T(2), T(10), T(88.7), T(103.9), T(709.7), T(745.1),
                 Limits::infinity(), Limits::min(), Limits::denorm_min(), Limits::max(),
                 Limits::epsilon(), Limits::quiet_NaN(), T(0.92773), T(M_PI), T(M_PI_2), T(16e6)})
    for (T v : {edge, std::nextafter(edge, T(0)), std::nextafter(edge, Limits::infinity())}) {
      x.push_back(v);
      x.push_back(-v);
    }
  return x;
}

struct Worst {
  double error = 0;
  double at = 0;
};

/// The largest error of f over x at every level, in units that error(y, truth, x) measures.
template <class T, class F, class Truth, class Error>
Worst worst(const std::vector<T>& x, F f, Truth truth, Error error) {
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<T> y(n);
  std::vector<Real> expected(n);
  for (int64_t i = 0; i < n; ++i) expected[i] = truth(Real(x[i]));
  Worst w;
  for (VectorLevel level : kLevels) {
    VectorLevelScope scope(level);
    const T* from = x.data();
    T* to = y.data();
    simd([=] {
      for (int64_t i = 0; i < n; ++i) to[i] = f(from[i]);
    });
    for (int64_t i = 0; i < n; ++i) {
      double e = error(y[i], expected[i], x[i]);
      if (!(e <= w.error)) w = {e, static_cast<double>(x[i])};
    }
  }
  return w;
}

template <class T, class F, class Truth>
void check_ulps(const std::string& name, double bound, const std::vector<T>& x, F f, Truth truth) {
  Worst w = worst(x, f, truth, [](T y, Real t, T) { return ulps(y, t); });
  CHECK_MESSAGE(w.error <= bound, name << ": " << w.error << " ulp at " << w.at);
}

// ---- f32 over all its numbers -----------------------------------------------------------------

/// The distance of y = f(x) from `truth`, which double holds exactly enough, in units of the last
/// place of f32. It has no branches, so that sixteen million calls are fast, and does not handle
/// infinities, NaN and overflow.
double float_ulps(float y, double truth) {
  const uint64_t exponent = std::bit_cast<uint64_t>(truth) & 0x7ff0000000000000;
  const double power = std::max(std::bit_cast<double>(exponent), 0x1p-126);
  return std::abs(static_cast<double>(y) - truth) / (power * 0x1p-23);
}

/// The largest error of f over all levels and over the floats with bits `bits(k)` for k < n.
template <class F, class Truth, class Bits>
Worst sweep(int64_t n, Bits bits, F f, Truth truth) {
  constexpr int64_t kBlock = 4096;
  std::vector<float> x(kBlock), y(kBlock);
  std::vector<double> expected(kBlock);
  Worst w;
  for (int64_t first = 0; first < n; first += kBlock) {
    const int64_t count = std::min(kBlock, n - first);
    for (int64_t i = 0; i < count; ++i) {
      x[i] = std::bit_cast<float>(static_cast<uint32_t>(bits(first + i)));
      expected[i] = truth(static_cast<double>(x[i]));
    }
    for (VectorLevel level : kLevels) {
      VectorLevelScope scope(level);
      const float* from = x.data();
      float* to = y.data();
      simd([=] {
        for (int64_t i = 0; i < count; ++i) to[i] = f(from[i]);
      });
      for (int64_t i = 0; i < count; ++i) {
        const bool plain = std::abs(expected[i]) <= std::numeric_limits<float>::max();
        const double e = plain ? float_ulps(y[i], expected[i]) : ulps<float>(y[i], expected[i]);
        if (!(e <= w.error)) w = {e, x[i]};
      }
    }
  }
  return w;
}

template <class F, class Truth>
void check_everywhere(const std::string& name, F f, Truth truth) {
  // An odd step between bit patterns reaches all exponents, all low bits and both signs.
  constexpr uint32_t kStep = 255;
  Worst w = sweep((int64_t{1} << 32) / kStep, [](int64_t k) { return k * kStep; }, f, truth);
  CHECK_MESSAGE(w.error <= 1, name << ": " << w.error << " ulp at " << w.at);
}

/// Every float within `radius` steps of each centre.
template <class F, class Truth>
void check_around(const std::string& name, const std::vector<double>& centres, int64_t radius, F f,
                  Truth truth) {
  auto bits = [&](int64_t k) {
    const float centre = static_cast<float>(centres[k / (2 * radius)]);
    return std::bit_cast<uint32_t>(centre) + k % (2 * radius) - radius;
  };
  Worst w = sweep(static_cast<int64_t>(centres.size()) * 2 * radius, bits, f, truth);
  CHECK_MESSAGE(w.error <= 1, name << ": " << w.error << " ulp at " << w.at);
}

Real sigmoid_truth(Real x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}
Real softplus_truth(Real x) {
  return std::isnan(x) ? x : std::max(x, Real(0)) + std::log1p(std::exp(-std::abs(x)));
}

}  // namespace

TEST_CASE_TEMPLATE("vmath: exponentials and logarithms", T, float, double) {
  const double edge = sizeof(T) == 4 ? 110 : 760;
  auto wide = arguments<T>(-edge, edge);
  auto near = arguments<T>(-2, 2);
  for (const auto& x : {wide, near}) {
    check_ulps(
        "exp", 1, x, [](T v) { return vmath::exp(v); }, [](Real v) { return std::exp(v); });
    check_ulps(
        "expm1", 1.5, x, [](T v) { return vmath::expm1(v); }, [](Real v) { return std::expm1(v); });
    check_ulps(
        "log", 1, x, [](T v) { return vmath::log(v); }, [](Real v) { return std::log(v); });
    check_ulps(
        "log1p", 1, x, [](T v) { return vmath::log1p(v); }, [](Real v) { return std::log1p(v); });
    check_ulps(
        "rsqrt", 2, x, [](T v) { return vmath::rsqrt(v); },
        [](Real v) { return 1 / std::sqrt(v); });
  }
}

TEST_CASE("vmath: exp, tanh, sin and cos are exact to one unit over all floats") {
  auto exp = [](float v) { return vmath::exp(v); };
  auto tanh = [](float v) { return vmath::tanh(v); };
  auto exact_exp = [](double v) { return std::exp(v); };
  auto exact_tanh = [](double v) { return std::tanh(v); };
  check_everywhere("exp", exp, exact_exp);
  check_everywhere("tanh", tanh, exact_tanh);
  check_everywhere(
      "sin", [](float v) { return vmath::sin(v); }, [](double v) { return std::sin(v); });
  check_everywhere(
      "cos", [](float v) { return vmath::cos(v); }, [](double v) { return std::cos(v); });
  // The errors are largest at the ends of the reduced interval, (k + 1/2) ln 2, and where tanh
  // changes from one formula to the other.
  std::vector<double> ends;
  for (int k = -149; k < 128; ++k) ends.push_back((k + 0.5) * std::log(2.0));
  check_around("exp", ends, 1000, exp, exact_exp);
  check_around("tanh", {0.75, 0.77, 0.79, 0.81, 0.85, 0.9}, 160000, tanh, exact_tanh);
}

TEST_CASE_TEMPLATE("vmath: activations", T, float, double) {
  auto wide = arguments<T>(-110, 110);
  auto near = arguments<T>(-3, 3);
  for (const auto& x : {wide, near}) {
    check_ulps(
        "tanh", 1, x, [](T v) { return vmath::tanh(v); }, [](Real v) { return std::tanh(v); });
    check_ulps(
        "sigmoid", 2.5, x, [](T v) { return vmath::sigmoid(v); }, sigmoid_truth);
    check_ulps(
        "softplus", 2, x, [](T v) { return vmath::softplus(v); }, softplus_truth);
    check_ulps(
        "erf", 2, x, [](T v) { return vmath::erf(v); }, [](Real v) { return std::erf(v); });
  }
}

TEST_CASE_TEMPLATE("vmath: GELU and its approximation by tanh", T, float, double) {
  // x/2 (1 + erf) cancels for x < 0, as in PyTorch, so the error is measured in units of x.
  auto in_units_of_x = [](T y, Real truth, T x) {
    if (!std::isfinite(x) || std::abs(truth) >= std::abs(Real(x)) / 2) return ulps(y, truth);
    return static_cast<double>(std::abs(y - truth) / std::abs(Real(x))) /
           std::numeric_limits<T>::epsilon();
  };
  auto x = arguments<T>(-12, 12);
  Worst w = worst(
      x, [](T v) { return vmath::gelu(v); },
      [](Real v) {
        return std::isinf(v) && v < 0 ? Real(0) : v * std::erfc(-v * std::sqrt(Real(0.5))) / 2;
      },
      in_units_of_x);
  CHECK_MESSAGE(w.error <= 2, "gelu: " << w.error << " at " << w.at);
  w = worst(
      x, [](T v) { return vmath::gelu_tanh(v); },
      [](Real v) {
        if (std::isinf(v) && v < 0) return Real(0);
        Real pi = std::acos(Real(-1));
        return v * sigmoid_truth(2 * std::sqrt(2 / pi) * (v + Real(0.044715) * v * v * v));
      },
      in_units_of_x);
  CHECK_MESSAGE(w.error <= 2.5, "gelu_tanh: " << w.error << " at " << w.at);
}

TEST_CASE_TEMPLATE("vmath: sine and cosine", T, float, double) {
  for (const auto& x : {arguments<T>(-7, 7), arguments<T>(-1e5, 1e5), arguments<T>(-1e30, 1e30)}) {
    check_ulps(
        "sin", 1, x, [](T v) { return vmath::sin(v); }, [](Real v) { return std::sin(v); });
    check_ulps(
        "cos", 1, x, [](T v) { return vmath::cos(v); }, [](Real v) { return std::cos(v); });
  }
}

TEST_CASE("vmath: sine and cosine of the floats nearest to multiples of pi/2") {
  std::vector<float> x;
  const Real half_pi = std::acos(Real(-1)) / 2;
  for (int64_t k = 1; k < 20000; ++k) {
    float nearest = static_cast<float>(half_pi * static_cast<Real>(k));
    x.insert(x.end(), {nearest, -nearest});
  }
  // The float closest to a multiple of pi/2 (Muller, Elementary Functions, table 11.1).
  x.push_back(16367173.0f * 0x1p72f);
  check_ulps(
      "sin", 1, x, [](float v) { return vmath::sin(v); }, [](Real v) { return std::sin(v); });
  check_ulps(
      "cos", 1, x, [](float v) { return vmath::cos(v); }, [](Real v) { return std::cos(v); });
}

TEST_CASE_TEMPLATE("vmath: sine and cosine of turns", T, float, double) {
  const Real two_pi = 2 * std::acos(Real(-1));
  std::vector<T> x(50000);
  Rng(29).fill_uniform(x.data(), x.size());
  for (int k = 0; k <= 16; ++k) x.push_back(static_cast<T>(k / 16.0));
  // The error in units of the length of (s, c): near zeros of s and c, 2 pi u in long double is
  // not exact enough for more.
  auto absolute = [](T y, Real truth, T) {
    return static_cast<double>(std::abs(y - truth)) / std::numeric_limits<T>::epsilon();
  };
  auto sine = [](T u) {
    T s, c;
    vmath::sincos_turns(u, s, c);
    return s;
  };
  auto cosine = [](T u) {
    T s, c;
    vmath::sincos_turns(u, s, c);
    return c;
  };
  CHECK(worst(
            x, sine, [=](Real u) { return std::sin(two_pi * u); }, absolute)
            .error <= 1);
  CHECK(worst(
            x, cosine, [=](Real u) { return std::cos(two_pi * u); }, absolute)
            .error <= 1);
}

TEST_CASE_TEMPLATE("vmath: powers", T, float, double) {
  using Limits = std::numeric_limits<T>;
  const T inf = Limits::infinity(), nan = Limits::quiet_NaN();
  std::vector<T> bases, exponents;
  std::vector<T> edges = {
      0,   1,   2,      3,   0.5, 1.5, 1e3, T(0.999),      T(1.001),     16777216,
      inf, nan, T(1e9), 127, 128, 149, 33,  Limits::max(), Limits::min()};
  for (T b : edges)
    for (T e : edges)
      for (int signs = 0; signs < 4; ++signs) {
        bases.push_back(signs & 1 ? -b : b);
        exponents.push_back(signs & 2 ? -e : e);
      }
  Rng rng(31);
  for (int i = 0; i < 60000; ++i) {
    double b = std::exp2(rng.uniform(-30, 30));
    bool whole = i % 3 == 0;
    bases.push_back(static_cast<T>(whole && rng.below(2) ? -b : b));
    exponents.push_back(static_cast<T>(whole ? double(rng.below(41)) - 20 : rng.uniform(-30, 30)));
  }
  const int64_t n = static_cast<int64_t>(bases.size());
  std::vector<T> y(n);
  for (VectorLevel level : kLevels) {
    VectorLevelScope scope(level);
    const T *b = bases.data(), *e = exponents.data();
    T* to = y.data();
    simd([=] {
      for (int64_t i = 0; i < n; ++i) to[i] = vmath::pow(b[i], e[i]);
    });
    for (int64_t i = 0; i < n; ++i) {
      Real truth = std::pow(Real(b[i]), Real(e[i]));
      bool sign = std::isnan(truth) || std::signbit(y[i]) == std::signbit(truth);
      if (ulps(y[i], truth) > 2 || !sign)
        FAIL_CHECK(b[i] << " ^ " << e[i] << " = " << y[i] << ", not " << double(truth));
    }
  }
}

TEST_CASE_TEMPLATE("vmath: odd functions keep the sign of zero", T, float, double) {
  const T zero = -T(0);
  CHECK(std::signbit(vmath::expm1(zero)));
  CHECK(std::signbit(vmath::log1p(zero)));
  CHECK(std::signbit(vmath::tanh(zero)));
  CHECK(std::signbit(vmath::erf(zero)));
  CHECK(std::signbit(vmath::sin(zero)));
  CHECK_FALSE(std::signbit(vmath::tanh(T(0))));
  CHECK_FALSE(std::signbit(vmath::sin(T(0))));
}

}  // namespace tern::test_vmath
