// Models without memory, for weights that are loaded right after. A constructor draws random
// numbers into new memory, which takes as much memory and longer than reading the file.
//
//   auto model = nn::unfilled([&] { return models::Gpt(options, rng); });
//   models::load_gpt_weights("model.safetensors", model);     // weights get their memory here
//
// The weights are address space, which reads as 0. load_state_dict() and all loaders give each
// weight real memory, without a copy where they may take the file's tensors
// (LoadStateOptions::take). Whatever a constructor computes must be in the state that is loaded;
// weights that are not loaded stay 0. Generators (dropout) may have other states than after a usual
// construction.
#pragma once

#include "tern/core/base/shape_only.h"

namespace tern::nn {

/// make(), in a ShapeOnlyScope.
template <class Make>
auto unfilled(Make&& make) {
  const ShapeOnlyScope no_memory;
  return make();
}

}  // namespace tern::nn
