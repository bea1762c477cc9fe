// Floating-point numbers parsed by the C library, beside std::from_chars.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>

#include "tern/core/base/parse_number.h"

namespace tern::test_parse_number {
namespace {

template <class T>
void check_same(const std::string& text) {
  CAPTURE(text);
  T expected = 7, value = 7;
  const char *first = text.data(), *last = first + text.size();
  const auto wanted = std::from_chars(first, last, expected);
  const auto found = detail::parse_float_by_c(first, last, value);
  CHECK(found.ec == wanted.ec);
  CHECK(found.ptr - first == wanted.ptr - first);
  if (std::isnan(expected))
    CHECK(std::isnan(value));
  else
    CHECK((value == expected && std::signbit(value) == std::signbit(expected)));
}

TEST_CASE("numbers: the C library reads them as std::from_chars does") {
  // clang-format off
  constexpr const char* kTexts[] = {
      "0", "-0", "1", "-1.5", ".5", "-.5", "5.", "1e3", "1e", "1e+", "1e-3x", "1E5", "0x1p3",
      "-0x10", "0x", "inf", "-infinity", "INF", "infx", "nan", "-nan", "nan(1)", "1e400", "-1e400",
      "1e-400", "1e-320", "4.9e-324", "1e39", "1e-46", "1e-44", "", " 1", "+1", "--1", "-", ".",
      "e5", "abc", "1,5", "1 ", "12345678901234567890123", "0.1", "3.4028235e38"};
  // clang-format on
  for (const char* text : kTexts) {
    check_same<double>(text);
    check_same<float>(text);
  }
  check_same<double>(std::string("1\0002", 3));
  std::mt19937_64 bits(3);
  for (int i = 0; i < 1000; ++i) {
    const auto value = std::bit_cast<double>(bits());
    if (!std::isfinite(value)) continue;
    char text[64];
    const auto end = std::to_chars(text, text + sizeof text, value).ptr;
    check_same<double>(std::string(text, end));
    check_same<float>(std::string(text, end));
  }
}

}  // namespace
}  // namespace tern::test_parse_number
