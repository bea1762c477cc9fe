// Numbers with a bound on the error of the same arithmetic in f32 or f64: an expectation with its
// own tolerance. The error is infinite after an overflow of that type, and after a division by a
// number that rounding may have made 0.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

namespace tern::test {

struct Number {
  double value = 0, error = 0;

  /// The type whose rounding is modelled. Global state: tests run in one thread.
  static inline double rounding = 0x1p-24, largest = 3.4028235e38, smallest = 0x1p-149;
  static void use_f32() { rounding = 0x1p-24, largest = 3.4028235e38, smallest = 0x1p-149; }
  static void use_f64() { rounding = 0x1p-53, largest = 1.797e308, smallest = 0x1p-1074; }

  Number() = default;
  Number(double v) : Number(v, 0) {}  // implicit, like numbers; a coefficient is rounded, too
  Number(double v, double e) : value(v), error(e + (v == 0 ? 0 : 2 * rounding * std::abs(v))) {
    if (v != 0) error += smallest;
    if (!(std::abs(v) + e <= largest)) error = std::numeric_limits<double>::infinity();
  }
  bool known() const { return std::isfinite(error); }
};

inline Number operator+(Number a, Number b) { return {a.value + b.value, a.error + b.error}; }
inline Number operator-(Number a, Number b) { return {a.value - b.value, a.error + b.error}; }
inline Number operator*(Number a, Number b) {
  double e = a.error * b.error;
  if (b.value != 0) e += a.error * std::abs(b.value);
  if (a.value != 0) e += b.error * std::abs(a.value);
  return {a.value * b.value, std::isnan(e) ? std::numeric_limits<double>::infinity() : e};
}
inline Number operator/(Number a, Number b) {
  const double least = std::abs(b.value) - b.error;
  const double y = a.value / b.value;
  if (!(least > 0)) return {y, std::numeric_limits<double>::infinity()};
  return {y, (a.error + std::abs(y) * b.error) / least};
}
/// The square root of a number that is negative only by its error.
inline Number root(Number x) {
  const double y = std::sqrt(std::max(x.value, 0.0));
  return {y, std::sqrt(std::max(x.value, 0.0) + x.error) - y +
                 (x.value > x.error ? y - std::sqrt(x.value - x.error) : y)};
}
/// beta m + (1 - beta) x, computed as m + (1 - beta) (x - m) unless beta is 0.
inline Number average(Number m, Number x, double beta) {
  if (beta == 0) return x;
  const double e = beta * m.error + (1 - beta) * x.error;
  const double rounded = 4 * Number::rounding * (std::abs(m.value) + std::abs(x.value));
  return {beta * m.value + (1 - beta) * x.value, e + rounded};
}

}  // namespace tern::test
