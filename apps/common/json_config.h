// Configurations as a run's folder keeps them.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tern/core/base/error.h"

namespace tern::apps {

/// Gives a configuration that an earlier version wrote what it did not have yet.
inline void add_missing(nlohmann::json& config) {
  if (config.is_object()) config.emplace("precision", "f32");
}

/// A configuration C (known to nlohmann::json) from its JSON; `check(config)` throws where its
/// numbers cannot be. Error if the text is no such configuration.
template <class C, class Check>
C parse_config(const std::string& json, Check check) {
  try {
    nlohmann::json stored = nlohmann::json::parse(json);
    add_missing(stored);
    C config = stored.get<C>();
    check(config);
    return config;
  } catch (const nlohmann::json::exception& e) {
    fail(fmt::format("its configuration cannot be read: {}", e.what()));
  }
}

}  // namespace tern::apps
