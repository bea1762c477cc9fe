// Tensors by the beginning of their names. Inside of train only.
#pragma once

#include <string>

#include "tern/core/io/state.h"

namespace tern::training {

/// Those whose names begin with `prefix`, under the rest of their names.
inline NamedTensors below(const std::string& prefix, const NamedTensors& tensors) {
  NamedTensors out;
  for (const auto& [name, t] : tensors)
    if (name.starts_with(prefix)) out.emplace_back(name.substr(prefix.size()), t);
  return out;
}

/// The other way round.
inline NamedTensors with_prefix(const std::string& prefix, const NamedTensors& tensors) {
  NamedTensors out;
  for (const auto& [name, t] : tensors) out.emplace_back(prefix + name, t);
  return out;
}

}  // namespace tern::training
