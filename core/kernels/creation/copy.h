// Copies between strided arrays, with conversion of the element type. Inside of core only.
#pragma once

#include <cstring>
#include <type_traits>

#include "tern/core/base/dtype.h"
#include "tern/core/kernels/loops.h"

namespace tern::kernels {

/// The smallest number of elements that justifies a thread in a pass over memory.
constexpr int64_t kGrain = 32768;

/// As static_cast, but defined for every value: floats beyond i64's range, and NaN, give its lowest
/// value, as on x86. Floats convert to u8 by way of i64.
template <class To, class From>
inline To convert(From x) {
  if constexpr (std::is_floating_point_v<From> && std::is_integral_v<To>) {
    constexpr From kEnd = 9223372036854775808.0;  // 2^63
    int64_t i = x >= -kEnd && x < kEnd ? static_cast<int64_t>(x) : INT64_MIN;
    return static_cast<To>(i);
  } else {
    return static_cast<To>(x);
  }
}

constexpr int64_t kShortRow = 16;

/// Copies n < kShortRow contiguous elements. A call of memcpy would take longer.
template <class T>
[[gnu::always_inline]] inline void copy_short(T* to, const T* from, int64_t n) {
  auto ends = [=]<int64_t kPart>(std::integral_constant<int64_t, kPart>) {  // they may overlap
    std::memcpy(to, from, kPart * sizeof(T));
    std::memcpy(to + n - kPart, from + n - kPart, kPart * sizeof(T));
  };
  if (n >= 8) return ends(std::integral_constant<int64_t, 8>());
  if (n >= 4) return ends(std::integral_constant<int64_t, 4>());
  for (int64_t i = 0; i < n; ++i) to[i] = from[i];
}

/// Copies n contiguous elements. Rows of some kilobytes go in parts: memcpy of glibc 2.36 would
/// copy the whole row by `rep movsb`, which takes ten times as long on AMD's Zen 3 if `to` begins
/// shortly behind `from`, modulo a page (glibc bug 30994).
template <class T>
inline void copy_contiguous(T* to, const T* from, int64_t n) {
  constexpr size_t kPart = 2048, kLong = size_t{1} << 20;
  char* t = reinterpret_cast<char*>(to);
  const char* f = reinterpret_cast<const char*>(from);
  size_t bytes = static_cast<size_t>(n) * sizeof(T);
  if (bytes < kLong)
    for (; bytes > kPart; t += kPart, f += kPart, bytes -= kPart) {
      size_t part = kPart;
      asm("" : "+r"(part));  // else compilers replace memcpy of a constant size by `rep movsq`
      std::memcpy(t, f, part);
    }
  std::memcpy(t, f, bytes);
}

/// The distances, in elements, from a row to the next and from an element to the next.
struct Steps {
  int64_t row, element;
};

/// Copies `rows` rows of n elements.
using BlockCopy = void (*)(void* to, Steps to_steps, const void* from, Steps from_steps,
                           int64_t rows, int64_t n);
BlockCopy block_copy(DType to, DType from);

/// Copies operand 1 of the loops to operand 0. They must not overlap.
void copy(const Loops& loops, void* to, DType to_type, const void* from, DType from_type);

/// Sets n contiguous elements to the element at `value`; both have this type.
void fill(void* to, DType type, const void* value, int64_t n);

/// Whether any of n contiguous numbers is zero.
bool any_zero(const void* x, DType type, int64_t n);

}  // namespace tern::kernels
