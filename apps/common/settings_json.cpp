#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <type_traits>

#include "tern/apps/common/settings.h"
#include "tern/core/base/error.h"
#include "tern/core/io/json_text.h"

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

// Error that names the member unless `given` has every member of `expected`, an object, with its
// type: whole numbers are not cut off, and none wraps.
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

json::json_pointer pointer_to(const Setting& s) {
  std::string path = "/" + s.key;
  for (char& c : path)
    if (c == '.') c = '/';
  return json::json_pointer(path);
}

json to_object(const Settings& settings) {
  json object = json::object();
  for (const Setting& s : settings.rows())
    if (s.in_files) std::visit([&](const auto* value) { object[pointer_to(s)] = *value; }, s.value);
  return object;
}

// What a file of an earlier version lacks keeps the value that it has.
void add_missing(json& object, const json& defaults, const Settings& settings) {
  const json given = object;
  for (const Setting& s : settings.rows()) {
    const json::json_pointer at = pointer_to(s), above = at.parent_pointer();
    const bool there = given.contains(above);
    if (!s.in_files || (there ? !given[above].is_object() || given.contains(at) : false)) continue;
    if (there ? s.may_be_missing : s.object_may_be_missing) object[at] = defaults[at];
  }
}

void read_members(json object, const Settings& settings) {
  const json expected = to_object(settings), given = object;
  if (object.is_object()) add_missing(object, expected, settings);
  check_types(object, expected);
  for (const Setting& s : settings.rows())
    if (s.in_files) std::visit([&](auto* value) { object[pointer_to(s)].get_to(*value); }, s.value);
  for (const Setting& s : settings.rows())
    if (s.if_missing && !given.contains(pointer_to(s))) s.if_missing();
  check_settings(settings);
}

}  // namespace

std::string settings_to_json(const Settings& settings) { return to_object(settings).dump(1); }

void settings_from_json(const std::string& text, const Settings& settings) {
  try {
    read_members(parse_json(text), settings);
  } catch (const json::exception& e) {
    fail(fmt::format("its configuration cannot be read: {}", e.what()));
  }
}

bool same_settings(const std::string& a, const std::string& b,
                   const std::vector<std::string>& free) {
  json one = parse_json(a), other = parse_json(b);
  for (const std::string& key : free) {
    one.erase(key);
    other.erase(key);
  }
  return one == other;
}

}  // namespace tern::apps
