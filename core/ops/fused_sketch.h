// What a slope of a formula of fused() is made of: which inputs it reads, and a fingerprint of the
// formula, so that a slope of 1 and two equal slopes are known before anything is computed. A
// sketch stands where a formula has a number or a Tensor. Fingerprints are 64 bits wide: two
// different slopes of a formula have the same one with a probability of about 2^-58.
#pragma once

#include <bit>
#include <cstdint>

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

/// The result of word number `word`.
inline Sketch word(uint64_t word, const Sketch& a, const Sketch& b = {}, const Sketch& c = {}) {
  const uint64_t print =
      Sketch::mixed(Sketch::mixed(Sketch::mixed(word, a.print), b.print), c.print);
  return {print, a.reads | b.reads | c.reads};
}

// clang-format off
inline Sketch operator+(const Sketch& a, const Sketch& b) { return word(10, a, b); }
inline Sketch operator-(const Sketch& a, const Sketch& b) { return word(11, a, b); }
inline Sketch operator*(const Sketch& a, const Sketch& b) {
  if (a == Sketch::one()) return b;
  return b == Sketch::one() ? a : word(12, a, b);
}
inline Sketch operator/(const Sketch& a, const Sketch& b) {
  return b == Sketch::one() ? a : word(13, a, b);
}
inline Sketch operator-(const Sketch& a) { return word(14, a); }
inline Sketch pow(const Sketch& a, const Sketch& b) { return word(15, a, b); }
inline Sketch minimum(const Sketch& a, const Sketch& b) { return word(16, a, b); }
inline Sketch maximum(const Sketch& a, const Sketch& b) { return word(17, a, b); }
inline Sketch where(const Sketch& c, const Sketch& a, const Sketch& b) { return word(18, c, a, b); }
inline Sketch eq(const Sketch& a, const Sketch& b) { return word(19, a, b); }
inline Sketch ne(const Sketch& a, const Sketch& b) { return word(20, a, b); }
inline Sketch lt(const Sketch& a, const Sketch& b) { return word(21, a, b); }
inline Sketch le(const Sketch& a, const Sketch& b) { return word(22, a, b); }
inline Sketch gt(const Sketch& a, const Sketch& b) { return word(23, a, b); }
inline Sketch ge(const Sketch& a, const Sketch& b) { return word(24, a, b); }
inline Sketch logical_and(const Sketch& a, const Sketch& b) { return word(25, a, b); }
inline Sketch logical_or(const Sketch& a, const Sketch& b) { return word(26, a, b); }
inline Sketch logical_not(const Sketch& a) { return word(27, a); }
inline Sketch abs(const Sketch& a) { return word(28, a); }
inline Sketch sign(const Sketch& a) { return word(29, a); }
inline Sketch exp(const Sketch& a) { return word(30, a); }
inline Sketch expm1(const Sketch& a) { return word(31, a); }
inline Sketch log(const Sketch& a) { return word(32, a); }
inline Sketch log1p(const Sketch& a) { return word(33, a); }
inline Sketch sqrt(const Sketch& a) { return word(34, a); }
inline Sketch rsqrt(const Sketch& a) { return word(35, a); }
inline Sketch sin(const Sketch& a) { return word(36, a); }
inline Sketch cos(const Sketch& a) { return word(37, a); }
inline Sketch tanh(const Sketch& a) { return word(38, a); }
inline Sketch sigmoid(const Sketch& a) { return word(39, a); }
inline Sketch softplus(const Sketch& a) { return word(40, a); }
inline Sketch erf(const Sketch& a) { return word(41, a); }
inline Sketch gelu(const Sketch& a) { return word(42, a); }
inline Sketch gelu_tanh(const Sketch& a) { return word(43, a); }
// clang-format on

}  // namespace tern::detail::fusion
