#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <type_traits>

#include "tern/apps/common/json_types.h"
#include "tern/apps/common/settings.h"
#include "tern/core/base/error.h"
#include "tern/core/io/json_text.h"

namespace tern::apps {
namespace {

using nlohmann::json;

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
