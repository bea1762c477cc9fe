#include "tern/core/io/json_text.h"

#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"

namespace tern {
namespace {

/// The position after the string whose first quote is at text[at - 1].
size_t string_end(std::string_view text, size_t at) {
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return at + 1;
}

void check_limits(std::string_view text, const JsonLimits& limits) {
  int64_t depth = 0, values = 1;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at++];
    if (c == '"') at = string_end(text, at);
    if (c == ']' || c == '}') --depth;
    if (c == '[' || c == '{') {
      check(++depth <= limits.depth, "byte {} of the JSON is {} levels deep; at most {}", at - 1,
            depth, limits.depth);
    }
    values += c == '[' || c == '{' || c == ',';
    check(values <= limits.values, "the JSON has more than {} values at byte {}", limits.values,
          at - 1);
  }
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const JsonLimits& limits) {
  check_limits(text, limits);
  return nlohmann::json::parse(text);
}

int64_t whole_number(const nlohmann::json& value) {
  const bool wraps = value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX;
  if (!value.is_number_integer() || wraps) {
    constexpr size_t kMost = 40;
    using nlohmann::json;
    const std::string shown = value.dump(-1, ' ', false, json::error_handler_t::replace);
    fail(fmt::format("{:.{}} is not an integer below 2^63", shown, kMost));
  }
  return value.get<int64_t>();
}

std::vector<int64_t> whole_numbers(const nlohmann::json& list) {
  check(list.is_array(), "expected a list of integers, got {}", list.type_name());
  std::vector<int64_t> numbers;
  for (const nlohmann::json& value : list) numbers.push_back(whole_number(value));
  return numbers;
}

int64_t whole_number_or(const nlohmann::json& object, const char* key, int64_t otherwise) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? otherwise : whole_number(*found);
}

}  // namespace tern
