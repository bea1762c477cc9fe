// Parts of the readers of transformers' config.json. Inside of tern only.
//
// A reader uses every member, or ignores it because it changes no result, or refuses it by name.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/io/json_value.h"
#include "tern/core/ops/ops.h"

namespace tern::models::config_json {

/// Calls use(root of the JSON). Top-level members that `use` does not read go to `unknown`; unread
/// members of inner objects are errors.
template <class Use>
auto read_config_json(const std::string& text, std::vector<std::string>* unknown, Use use) {
  const JsonDocument file(text);
  auto result = use(file.root());
  const std::vector<std::string> names = file.refuse_unread_inside();
  if (unknown) *unknown = names;
  return result;
}

/// Error unless a member is missing, null or has this value.
template <class T>
void only(const JsonValue& j, const char* key, const T& wanted) {
  if (j.get(key, wanted) != wanted)
    j.find(key).fail(fmt::format("it is {}; only {} is known", j.find(key).shown(),
                                 nlohmann::json(wanted).dump()));
}
inline void only(const JsonValue& j, const char* key, const char* wanted) {
  only<std::string>(j, key, wanted);
}

/// Error unless these members are missing, null or empty.
void only_empty(const JsonValue& j, std::initializer_list<const char*> keys);

/// Ignores members that do not change a model's results: names, special tokens, settings of
/// generation and training, heads for other tasks, and sizes that the weights show.
void ignore_harmless(const JsonValue& j);

/// A visitor (name, value, default) that reads members, and one that writes them.
inline auto member_reader(const JsonValue& j) {
  return [&j]<class T>(const char* key, T& value, auto otherwise) {
    value = j.get(key, static_cast<T>(otherwise));
  };
}
inline auto member_writer(nlohmann::json& j) {
  return [&j](const char* key, const auto& value, auto) { j[key] = value; };
}

}  // namespace tern::models::config_json
