// Configurations as a run's folder keeps them.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>
#include <type_traits>

#include "tern/apps/common/epoch_end.h"
#include "tern/apps/common/json_types.h"
#include "tern/apps/common/memory_options.h"
#include "tern/core/base/error.h"
#include "tern/core/io/json_text.h"

namespace tern::apps {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MemoryOptions, step_in_backward, recompute, optimizer_bits)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EpochEndOptions, patience, keep, plateau_patience,
                                   plateau_factor)

/// The value of a key; `otherwise` where it is missing or null. An int64_t as whole_number has it.
template <class T>
T value_or(const nlohmann::json& object, const char* key, const T& otherwise) {
  if constexpr (std::is_same_v<T, int64_t>) return whole_number_or(object, key, otherwise);
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? otherwise : found->template get<T>();
}

/// A configuration with members `memory_use` and `epoch_end` as JSON, which leaves them out where
/// they are the default: as files have it that are older than they are.
template <class C>
nlohmann::json config_json(const C& config) {
  nlohmann::json j = config;
  if (config.memory_use == MemoryOptions{}) j.erase("memory_use");
  if (config.epoch_end == EpochEndOptions{}) j.erase("epoch_end");
  return j;
}

/// Gives a configuration that an earlier version wrote what it did not have yet.
inline void add_missing(nlohmann::json& config) {
  if (!config.is_object()) return;
  config.emplace("precision", "f32");
  config.emplace("optimizer", "adamw");
  config.emplace("memory_use", MemoryOptions{});
  config.emplace("epoch_end", EpochEndOptions{});
}

/// And back.
template <class C>
void read_config(nlohmann::json j, C& config) {
  add_missing(j);
  check_types(j, C{});
  j.get_to(config);
  check_memory(config.memory_use);
  check_epoch_end(config.epoch_end);
}

/// A configuration C (known to nlohmann::json) from its JSON; `check(config)` throws where its
/// numbers cannot be. Error if the text is no such configuration.
template <class C, class Check>
C parse_config(const std::string& json, Check check) {
  try {
    C config;
    read_config(parse_json(json), config);
    check(config);
    return config;
  } catch (const nlohmann::json::exception& e) {
    fail(fmt::format("its configuration cannot be read: {}", e.what()));
  }
}

}  // namespace tern::apps
