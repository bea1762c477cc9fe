// Which results a stack of blocks keeps for the backward pass, and which it recomputes there.
// Losses and gradients are the same to the last bit (except second derivatives with full). Random
// numbers are replayed.
//
//   none        keeps all that its ops need
//   selective   recomputes norms, gates, and linear with GELU or SiLU: one pass over each
//   full        keeps only the block's input: one more forward pass
//
// (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; Korthikanti et al. 2022,
// "Reducing Activation Recomputation in Large Transformer Models", the source of these names.)
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tern/core/tape/autograd.h"

namespace tern::nn {

enum class Recompute { none, selective, full };

/// The names none, selective, full, for flags and files.
const char* name(Recompute recompute);
Recompute recompute_named(const std::string& name);
std::vector<std::string> recompute_names();

/// Runs block(inputs); the backward pass recomputes as `recompute` says. block is a
/// std::function<Tensor(std::span<const Tensor>)>. For its captures see checkpoint().
template <class F>
Tensor recomputed(Recompute recompute, const std::vector<Tensor>& inputs, F&& block) {
  switch (recompute) {
    case Recompute::none:
      break;
    case Recompute::selective: {
      const RecomputeScope scope;
      return block(std::span<const Tensor>(inputs));
    }
    case Recompute::full:
      return checkpoint(std::forward<F>(block), inputs);
  }
  return block(std::span<const Tensor>(inputs));
}

}  // namespace tern::nn
