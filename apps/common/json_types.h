// Types of a configuration's members, before they are read into numbers.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "tern/core/io/json_text.h"

namespace tern::apps {

/// Error that names the member unless `given` has every member of `expected`, an object, with its
/// type: whole numbers are not cut off, and none wraps. `expected` may be any values of the types.
void check_types(const nlohmann::json& given, const nlohmann::json& expected);

/// The value of a key; `otherwise` where it is missing or null. An int64_t as whole_number has it.
template <class T>
T value_or(const nlohmann::json& object, const char* key, const T& otherwise) {
  if constexpr (std::is_same_v<T, int64_t>) return whole_number_or(object, key, otherwise);
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? otherwise : found->template get<T>();
}

}  // namespace tern::apps
