// What a stack of blocks keeps for the backward pass, and what it computes again there. Losses and
// gradients are the same to the last bit (second derivatives by full are not); random numbers are
// handed out again.
//
//   none        all that its ops need is kept
//   selective   but the results of norms, of gates, and of linear with GELU or SiLU: a pass over
//               each
//   full        its input alone is kept: the forward pass once more
//
// (Chen et al. 2016, "Training Deep Nets with Sublinear Memory Cost"; Korthikanti et al. 2022,
// "Reducing Activation Recomputation in Large Transformer Models", whose names these are.)
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tern/core/tape/autograd.h"

namespace tern::nn {

enum class Recompute { none, selective, full };

/// By their names, for flags and files: none, selective, full.
const char* name(Recompute recompute);
Recompute recompute_named(const std::string& name);
std::vector<std::string> recompute_names();

/// block(inputs), of which the backward pass computes again what `recompute` says. block is a
/// std::function<Tensor(std::span<const Tensor>)>; what it captures is as checkpoint() says.
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
