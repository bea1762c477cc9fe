// Parses JSON with nlohmann's library, after a scan that checks depth and number of values. Refuses
// members that occur twice, and says the line and column of a fault.
#include "tern/core/io/json_text.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "tern/core/base/error.h"

namespace tern {
namespace {

/// The position after the string whose first quote is at text[at - 1].
size_t string_end(std::string_view text, size_t at) {
  while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
  return at + 1;
}

/// Checks the limits. Returns the number of members in all objects, if the text is JSON.
int64_t check_limits(std::string_view text, const JsonLimits& limits) {
  int64_t depth = 0, values = 1, members = 0;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at++];
    // nlohmann's parser would end the text here.
    if (c == '\0') fail(detail::json_fault(text, at, "a zero byte"));
    if (c == '"') at = string_end(text, at);
    if (c == ']' || c == '}') --depth;
    if (c == '[' || c == '{') {
      check(++depth <= limits.depth, "byte {} of the JSON is {} levels deep; the limit is {}",
            at - 1, depth, limits.depth);
    }
    members += c == ':';
    values += c == '[' || c == '{' || c == ',';
    check(values <= limits.values, "the JSON has more than {} values at byte {}", limits.values,
          at - 1);
  }
  return members;
}

int64_t members_of(const nlohmann::json& value) {
  int64_t members = value.is_object() ? std::ssize(value) : 0;
  if (value.is_structured())
    for (const nlohmann::json& inner : value) members += members_of(inner);
  return members;
}

/// The first member that occurs twice in its object. REQUIRES: there is one.
std::string doubled_member(std::string_view text) {
  using nlohmann::json;
  std::vector<std::set<std::string>> open;  // the members of the enclosing objects
  std::string doubled;
  const auto look = [&](int, json::parse_event_t event, json& value) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event == json::parse_event_t::key && doubled.empty() &&
        !open.back().insert(value.get<std::string>()).second)
      doubled = value.dump();
    return true;
  };
  [[maybe_unused]] const json parsed = json::parse(text, look);
  return doubled;
}

std::string_view after(std::string_view text, std::string_view mark) {
  const size_t at = text.find(mark);
  return at == text.npos ? text : text.substr(at + mark.size());
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const JsonLimits& limits) {
  const int64_t members = check_limits(text, limits);
  using nlohmann::json;
  try {
    json parsed = json::parse(text);
    if (members_of(parsed) != members)  // the parser keeps only the last of two
      fail(fmt::format("an object has the member {} twice", doubled_member(text)));
    return parsed;
  } catch (const json::parse_error& e) {
    fail(detail::json_fault(text, e.byte, e.what()));
  } catch (const json::exception& e) {  // a number over the largest f64
    fail(fmt::format("not JSON: {}", after(e.what(), "] ")));
  }
}

std::string read_json_text(const std::string& path, int64_t most) {
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);  // an error for a pipe
  check_io(!error, "{}: {}", path, error.message());
  check_io(size <= static_cast<uintmax_t>(most), "{}: {} bytes are too many; the limit is {}", path,
           size, most);
  std::ifstream in(path, std::ios::binary);
  std::string text(size, '\0');
  in.read(text.data(), static_cast<std::streamsize>(size));
  check_io(in.gcount() == static_cast<std::streamsize>(size), "{}: it cannot be read", path);
  return text;
}

std::string detail::json_fault(std::string_view text, size_t byte, std::string_view what) {
  if (text.find_first_not_of(" \t\r\n") == text.npos) return "not JSON: it is empty";
  if (text.find_first_not_of('\0') == text.npos)
    return "not JSON: it holds only zero bytes, perhaps after a power failure";
  const std::string_view before = text.substr(0, std::max<size_t>(byte, 1) - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t column = before.size() - (before.rfind('\n') + 1) + 1;
  std::string_view reason = after(after(what, "] "), " - ");
  reason = reason.substr(0, reason.find("; last read"));
  if (reason.starts_with("unexpected end of input")) reason = "the file ends too early";
  return fmt::format("not JSON at line {}, column {}: {}", line, column, reason);
}

}  // namespace tern
