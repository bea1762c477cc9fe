// Loads state by name, as models, optimizers and averages save it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// Tensors with unique names, in order.
using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

struct LoadStateOptions {
  /// false: names that only one side has are reported, not refused. It is still an Error if no name
  /// matches.
  bool strict = true;
  /// Moves elements of `state` that have no other owner, if type and layout allow it, instead of
  /// copying them. So a large model is not in memory twice. Do not use `state` afterwards.
  bool take = false;
};

struct LoadStateReport {
  std::vector<std::string> missing;     ///< targets without an entry in `state`
  std::vector<std::string> unexpected;  ///< entries of `state` without a target
};

/// Copies the tensors of `state` into the targets with the same names, converting float types. If
/// anything does not fit, nothing is written, and one Error lists all problems (missing names,
/// unexpected ones with the nearest name, other shapes); `op` begins its text. A target with
/// several names (tied weights) needs only one of them in `state`. If `state` has more, these must
/// have the same elements.
LoadStateReport load_state(const std::string& op, const NamedTensors& targets,
                           const NamedTensors& state, const LoadStateOptions& options = {});

/// The candidate with the smallest edit distance to `name`; empty if none is similar.
std::string nearest_name(const std::string& name, const std::vector<std::string>& candidates);

}  // namespace tern
