// Selects tensors by a prefix of their names, or adds a prefix. Inside of train only.
#pragma once

#include <string>

#include "tern/core/io/state.h"

namespace tern::training {

/// The tensors whose names begin with `prefix`, named by the rest of their names.
inline NamedTensors below(const std::string& prefix, const NamedTensors& tensors) {
  NamedTensors out;
  for (const auto& [name, t] : tensors)
    if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), t);
  return out;
}

/// The tensors with `prefix` added to their names.
inline NamedTensors with_prefix(const std::string& prefix, const NamedTensors& tensors) {
  NamedTensors out;
  for (const auto& [name, t] : tensors) out.emplace_back(prefix + name, t);
  return out;
}

}  // namespace tern::training
