// Reads the tape's notes on a parameter: which optimizer stepped it, and which parameters without a
// module the same backward pass reached. Inside of optim only.
#pragma once

#include "tern/core/tape/record.h"

namespace tern::optim {

using tern::detail::LeafNode;

/// REQUIRES: p is a leaf that requires a gradient.
inline LeafNode& leaf_of(const Tensor& p) { return *static_cast<LeafNode*>(p.node().get()); }

/// A parameter that no module or optimizer lists, reached by the backward pass that gave `leaf` its
/// gradient; null if there is none. Only its node may be left, if it was a short-lived copy.
inline const LeafNode* unknown_beside(const LeafNode& leaf) {
  if (!leaf.pass) return nullptr;
  for (const auto& other : leaf.pass->unknown) {
    const auto* node = static_cast<const LeafNode*>(other.get());
    if (!node->known && !node->frozen()) return node;
  }
  return nullptr;
}

/// Describes a step of an optimizer with the current gradient. REQUIRES: the leaf has a gradient.
inline LeafNode::Step step_by(const void* optimizer, const char* name, const LeafNode& leaf) {
  const tern::detail::Storage& gradient = *leaf.grad.ref()->storage;
  return {optimizer, name, &gradient, gradient.version(), leaf.run};
}

/// Throws an Error if an optimizer took the gradient of `p` inside backward: `op` would miss it.
inline void check_gradient_is_there(const char* op, const std::string& name, const Tensor& p) {
  if (!p.requires_grad() || !p.is_leaf()) return;
  check(!leaf_of(p).stepped_by,
        "{}: {} stepped '{}' inside backward, so its gradient is gone; use step() after backward "
        "where all gradients are needed at once",
        op, leaf_of(p).stepped_by ? leaf_of(p).stepped_by : "", name);
}

}  // namespace tern::optim
