// State by name: what models, optimizers and averages save and load.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// Tensors with their names, in order. Names may repeat nowhere.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

struct LoadStateOptions {
  bool strict = true;  ///< false: names that only one side has are reported, not refused
  /// Elements of `state` that nobody else holds are handed over where type and layout allow it,
  /// instead of copied: a large model is not in memory twice. `state` is not to be used afterwards.
  bool take = false;
};

struct LoadStateReport {
  std::vector<std::string> missing;     ///< targets that `state` does not have
  std::vector<std::string> unexpected;  ///< what `state` has beyond the targets
};

/// Copies the tensors of `state` into the targets of the same names, converting float types.
/// One Error lists everything that does not fit (missing, unexpected with the nearest name, other
/// shapes), and nothing is written unless all fits; `op` begins its text. Targets that are the
/// same tensor under several names need one of them in `state`.
LoadStateReport load_state(const std::string& op, const NamedTensors& targets,
                           const NamedTensors& state, const LoadStateOptions& options = {});

/// The candidate with the smallest edit distance to `name`; empty if none is near.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace tern
