// Sketches replace numbers or Tensors in a formula of fused(). A sketch records which inputs a
// slope reads and a fingerprint of its formula. So a slope of 1 and equal slopes are found before
// anything is computed. Fingerprints have 64 bits: two different slopes of a formula collide with a
// probability of about 2^-58.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "tern/core/base/dtype.h"

namespace tern::detail::fusion {

struct Sketch {
  uint64_t print = 0;
  uint32_t reads = 0;  ///< bit k: input k

  Sketch() = default;
  Sketch(uint64_t fingerprint, uint32_t inputs) : print(fingerprint), reads(inputs) {}
  /// A constant.
  explicit Sketch(double x) : print(mixed(1, std::bit_cast<uint64_t>(x))) {}

  static Sketch input(unsigned k) { return {mixed(2, k), 1u << k}; }
  static Sketch one() { return Sketch(1.0); }
  static Sketch none() { return Sketch(0.0); }

  bool operator==(const Sketch&) const = default;

  /// splitmix64's last steps (Steele, Lea, Flood 2014).
  static uint64_t mixed(uint64_t a, uint64_t b) {
    uint64_t z = a * 0x9E3779B97F4A7C15 ^ b;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
};

/// The sketch of a word's result.
inline Sketch sketch(std::string_view name, const Sketch& a, const Sketch& b = {},
                     const Sketch& c = {}) {
  uint64_t print = 0;
  for (char letter : name) print = Sketch::mixed(print, static_cast<uint64_t>(letter));
  for (const Sketch* x : {&a, &b, &c}) print = Sketch::mixed(print, x->print);
  return {print, a.reads | b.reads | c.reads};
}

// clang-format off
inline Sketch operator+(const Sketch& a, const Sketch& b) { return sketch("+", a, b); }
inline Sketch operator-(const Sketch& a, const Sketch& b) { return sketch("-", a, b); }
inline Sketch operator*(const Sketch& a, const Sketch& b) {
  if (a == Sketch::one()) return b;
  return b == Sketch::one() ? a : sketch("*", a, b);
}
inline Sketch operator/(const Sketch& a, const Sketch& b) {
  return b == Sketch::one() ? a : sketch("/", a, b);
}
inline Sketch operator-(const Sketch& a) { return sketch("neg", a); }
inline Sketch minimum(const Sketch& a, const Sketch& b) { return sketch("minimum", a, b); }
inline Sketch maximum(const Sketch& a, const Sketch& b) { return sketch("maximum", a, b); }
inline Sketch where(const Sketch& c, const Sketch& a, const Sketch& b) {
  return sketch("where", c, a, b);
}
inline Sketch eq(const Sketch& a, const Sketch& b) { return sketch("eq", a, b); }
inline Sketch ne(const Sketch& a, const Sketch& b) { return sketch("ne", a, b); }
inline Sketch lt(const Sketch& a, const Sketch& b) { return sketch("lt", a, b); }
inline Sketch le(const Sketch& a, const Sketch& b) { return sketch("le", a, b); }
inline Sketch gt(const Sketch& a, const Sketch& b) { return sketch("gt", a, b); }
inline Sketch ge(const Sketch& a, const Sketch& b) { return sketch("ge", a, b); }
inline Sketch logical_and(const Sketch& a, const Sketch& b) { return sketch("and", a, b); }
inline Sketch logical_or(const Sketch& a, const Sketch& b) { return sketch("or", a, b); }
inline Sketch logical_not(const Sketch& a) { return sketch("not", a); }
// clang-format on

}  // namespace tern::detail::fusion
