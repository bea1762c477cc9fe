// Configurations as a run's folder keeps them.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tern/core/base/error.h"

namespace tern::apps {

/// A configuration C (known to nlohmann::json) from its JSON; `check(config)` throws where its
/// numbers cannot be. Error if the text is no such configuration.
template <class C, class Check>
C parse_config(const std::string& json, Check check) {
  try {
    C config = nlohmann::json::parse(json).get<C>();
    check(config);
    return config;
  } catch (const nlohmann::json::exception& e) {
    fail(fmt::format("its configuration cannot be read: {}", e.what()));
  }
}

}  // namespace tern::apps
