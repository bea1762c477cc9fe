#include "tern/core/io/json_text.h"

#include <algorithm>
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

std::string_view after(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  return at == text.npos ? text : text.substr(at + mark.size());
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const JsonLimits& limits) {
  check_limits(text, limits);
  using nlohmann::json;
  try {
    return json::parse(text);
  } catch (const json::parse_error& e) {
    fail(detail::json_fault(text, e.byte, e.what()));
  } catch (const json::exception& e) {  // a number over the largest f64
    fail(fmt::format("not JSON: {}", after(e.what(), "] ")));
  }
}

std::string detail::json_fault(std::string_view text, size_t byte, std::string_view what) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) return "not JSON: it is empty";
  if (text.find_first_not_of('\0') == text.npos)
    return "not JSON: it holds zeros alone, as a loss of power may leave a file";
  const std::string_view before = text.substr(0, std::max<size_t>(byte, 1) - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  std::string_view reason = after(after(what, "] "), " - ");
  reason = reason.substr(0, reason.find("; last read"));
  if (reason.starts_with("unexpected end of input")) reason = "the file ends too early";
  return fmt::format("not JSON at line {}, column {}: {}", line, column, reason);
}

}  // namespace tern
