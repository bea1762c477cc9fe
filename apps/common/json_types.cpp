#include "tern/apps/common/json_types.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tern/core/base/error.h"

namespace tern::apps {
namespace {

using nlohmann::json;

// What is wrong with it, or nullptr.
const char* complaint(const json& given, const json& expected) {
  if (expected.is_boolean()) return given.is_boolean() ? nullptr : "true or false";
  if (expected.is_string()) return given.is_string() ? nullptr : "a text in quotes";
  if (expected.is_number_float()) return given.is_number() ? nullptr : "a number";
  // A count that was not negative may have been read as unsigned.
  if (expected.is_number_integer()) {
    if (!given.is_number_integer()) return "a whole number";
    const bool large = given.is_number_unsigned() && given.get<uint64_t>() > INT64_MAX;
    if (expected.is_number_unsigned())
      return given.is_number_unsigned() || given.get<int64_t>() >= 0 ? nullptr : "0 or more";
    return large ? "a whole number below 2^63" : nullptr;
  }
  if (expected.is_array()) {
    for (const json& item : given)
      if (!given.is_array() || !item.is_string()) return "a list of texts";
    return given.is_array() ? nullptr : "a list of texts";
  }
  return given.is_object() ? nullptr : "an object";
}

std::string shown(const json& value) {
  constexpr size_t kMost = 40;
  const std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

}  // namespace

void check_types(const json& given, const json& expected) {
  check(given.is_object(), "its configuration is {}; an object", shown(given));
  for (const auto& [name, value] : expected.items()) {
    const auto found = given.find(name);
    check(found != given.end(),
          "its configuration: {} is missing; is the folder another program's?", name);
    const char* wrong = complaint(*found, value);
    check(!wrong, "{} is {}; {}", name, shown(*found), wrong ? wrong : "");
    if (value.is_object()) check_types(*found, value);
  }
}

}  // namespace tern::apps
