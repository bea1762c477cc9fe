// std::from_chars, also of floating-point numbers with C++ libraries that lack that (libc++ before
// version 20). Inside of tern only.
#pragma once

#include <charconv>
#include <type_traits>

namespace tern::detail {

/// std::from_chars by the C library, in the locale "C".
std::from_chars_result parse_float_by_c(const char* first, const char* last, float& value);
std::from_chars_result parse_float_by_c(const char* first, const char* last, double& value);

/// std::from_chars(first, last, value), also of integers.
template <class T>
std::from_chars_result parse_number(const char* first, const char* last, T& value) {
#ifndef __cpp_lib_to_chars
  if constexpr (!std::is_integral_v<T>)
    return parse_float_by_c(first, last, value);
  else
#endif
    return std::from_chars(first, last, value);
}

}  // namespace tern::detail
