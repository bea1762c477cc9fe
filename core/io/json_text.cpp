#include "tern/core/io/json_text.h"

#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"

namespace tern {
namespace {

/// Past the string whose first quote is at text[at - 1].
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

}  // namespace tern
