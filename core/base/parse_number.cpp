// Parses floating-point numbers by strtod_l, with the rules of std::from_chars.
#include "tern/core/base/parse_number.h"

#include <locale.h>
#include <stdlib.h>

#include <cerrno>
#include <cmath>
#include <string>

#if defined(__APPLE__)
#include <xlocale.h>
#endif

namespace tern::detail {
namespace {

template <class T>
std::from_chars_result parse(const char* first, const char* last, T& value,
                             T (*strto)(const char*, char**, locale_t)) {
  static const locale_t c = ::newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string text(first, last);
  const size_t sign = text.starts_with('-');
  // strto also takes blanks and a plus sign in front, and hexadecimal digits.
  if (text.find_first_of("0123456789.iInN", sign) != sign)
    return {first, std::errc::invalid_argument};
  if (text.find_first_of("xX", sign) == sign + 1) {
    value = sign ? -T(0) : T(0);
    return {first + sign + 1, std::errc()};
  }
  char* end = nullptr;
  errno = 0;
  const T read = strto(text.c_str(), &end, c);
  if (end == text.c_str()) return {first, std::errc::invalid_argument};
  const char* const rest = first + (end - text.c_str());
  // The C library reports denormal numbers, too.
  if (errno == ERANGE && (read == 0 || std::isinf(read)))
    return {rest, std::errc::result_out_of_range};
  value = read;
  return {rest, std::errc()};
}

}  // namespace

std::from_chars_result parse_float_by_c(const char* first, const char* last, float& value) {
  return parse<float>(first, last, value, ::strtof_l);
}

std::from_chars_result parse_float_by_c(const char* first, const char* last, double& value) {
  return parse<double>(first, last, value, ::strtod_l);
}

}  // namespace tern::detail
