// Element types. u8 is also the boolean type: comparisons give 0 or 1.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iosfwd>
#include <string_view>
#include <type_traits>

#include "tern/core/base/error.h"

namespace tern {

/// There is no bool and no i32, for these reasons. A bool would take one byte, like u8, and need
/// the same kernels. It would buy masks that print as True and cannot be added by mistake. It would
/// cost promotion rules for every pair of types, a rule for every integer op, and a second mask
/// type in files and users' kernels. An i32 would halve the memory of indices, which are small
/// beside the data that they index. It would double the kernels that read them, or need a
/// conversion to i64 first. Both pay off only together with float storage types (bf16), which touch
/// the same code.
enum class DType : uint8_t { f32, f64, i64, u8 };

// A switch over DType has no default, so that the compiler finds each switch that lacks a new type.

constexpr std::string_view name(DType t) {
  switch (t) {
    case DType::f32:
      return "f32";
    case DType::f64:
      return "f64";
    case DType::i64:
      return "i64";
    case DType::u8:
      return "u8";
  }
  fail_unhandled("DType", t);
}

/// Writes name(t).
std::ostream& operator<<(std::ostream& out, DType t);

/// Size of an element in bytes.
constexpr int64_t item_size(DType t) {
  switch (t) {
    case DType::f32:
      return 4;
    case DType::f64:
    case DType::i64:
      return 8;
    case DType::u8:
      return 1;
  }
  fail_unhandled("DType", t);
}

constexpr bool is_float(DType t) {
  switch (t) {
    case DType::f32:
    case DType::f64:
      return true;
    case DType::i64:
    case DType::u8:
      return false;
  }
  fail_unhandled("DType", t);
}

/// Whether T is the type of a tensor's elements.
template <class T>
constexpr bool is_element = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                            std::is_same_v<T, int64_t> || std::is_same_v<T, uint8_t>;

/// The DType of a C++ type: dtype_of<float> is DType::f32.
template <class T>
constexpr DType dtype_of = [] {
  if constexpr (std::is_same_v<T, float>) return DType::f32;
  if constexpr (std::is_same_v<T, double>) return DType::f64;
  if constexpr (std::is_same_v<T, int64_t>) return DType::i64;
  if constexpr (std::is_same_v<T, uint8_t>) return DType::u8;
}();

/// Calls fn.template operator()<T>(), where T is the C++ type of `t`:
///   dispatch(x.dtype(), [&]<class T>() { kernel<T>(...); });
template <class Fn>
decltype(auto) dispatch(DType t, Fn&& fn) {
  switch (t) {
    case DType::f32:
      return fn.template operator()<float>();
    case DType::f64:
      return fn.template operator()<double>();
    case DType::i64:
      return fn.template operator()<int64_t>();
    case DType::u8:
      return fn.template operator()<uint8_t>();
  }
  fail_unhandled("DType", t);
}

/// As dispatch, but only for floating types; errors name `op`.
template <class Fn>
decltype(auto) dispatch_float(DType t, std::string_view op, Fn&& fn) {
  check(is_float(t), "{}: needs a floating tensor, got {}; convert with .to(DType::f32)", op,
        name(t));
  switch (t) {
    case DType::f32:
      return fn.template operator()<float>();
    case DType::f64:
      return fn.template operator()<double>();
    case DType::i64:
    case DType::u8:
      break;
  }
  fail_unhandled("DType", t);
}

}  // namespace tern

template <>
struct fmt::formatter<tern::DType> {
  constexpr auto parse(fmt::format_parse_context& ctx) { return ctx.begin(); }
  auto format(tern::DType t, fmt::format_context& ctx) const {
    std::string_view s = tern::name(t);
    return std::copy(s.begin(), s.end(), ctx.out());
  }
};
