#include <algorithm>

#include "tern/core/autograd.h"
#include "tern/core/ops.h"
#include "tern/core/record.h"
#include "tern/core/rng.h"

namespace tern {
namespace {

using Function = std::function<Tensor(std::span<const Tensor>)>;

// The same elements as a new leaf, or as a plain tensor where the original wants no gradient.
Tensor as_leaf(const Tensor& t) {
  Tensor leaf = t.detach();
  if (t.requires_grad()) leaf.set_requires_grad();
  return leaf;
}

// Leaves that fn reached besides its inputs: parameters of modules.
std::vector<Tensor> other_leaves(const Tensor& out, const std::vector<Tensor>& inputs) {
  std::vector<Tensor> others;
  for (const Tensor& leaf : leaves(out)) {
    auto same = [&](const Tensor& t) { return t.requires_grad() && t.node() == leaf.node(); };
    if (std::none_of(inputs.begin(), inputs.end(), same)) others.push_back(leaf);
  }
  return others;
}

std::vector<Rng> states(const std::vector<Rng*>& rngs) {
  std::vector<Rng> out;
  for (const Rng* rng : rngs) out.push_back(*rng);
  return out;
}

void restore(const std::vector<Rng*>& rngs, const std::vector<Rng>& states) {
  for (size_t i = 0; i < rngs.size(); ++i) *rngs[i] = states[i];
}

struct Recompute {
  Function fn;
  std::vector<Rng*> rngs;
  std::vector<Rng> rngs_before;
  std::vector<Saved> inputs = {};
  std::vector<Saved> others = {};

  Gradients operator()(const Tensor& dy) const {
    const bool create_graph = grad_enabled();
    EnableGradGuard on;
    // A higher derivative goes through the original inputs; else the segment stands alone.
    std::vector<Tensor> args, wanted;
    for (const Saved& s : inputs) args.push_back(create_graph ? s.get() : as_leaf(s.get()));
    std::vector<Tensor> leaves = args;
    for (const Saved& s : others) leaves.push_back(s.get());
    for (const Tensor& t : leaves)
      if (t.requires_grad()) wanted.push_back(t);
    std::vector<Rng> rngs_now = states(rngs);
    restore(rngs, rngs_before);
    Tensor y = fn(args);
    restore(rngs, rngs_now);
    std::vector<Tensor> found =
        grad({y}, wanted, {.create_graph = create_graph, .allow_unused = true, .gradients = {dy}});
    Gradients out;
    size_t next = 0;
    for (const Tensor& t : leaves) out.push_back(t.requires_grad() ? found[next++] : Tensor());
    return out;
  }
};

}  // namespace

Tensor checkpoint(const Function& fn, const std::vector<Tensor>& inputs,
                  const CheckpointOptions& options) {
  if (!grad_enabled()) return fn(inputs);
  Recompute recompute{fn, options.rngs, states(options.rngs)};
  // The first pass is recorded only to find the leaves that fn uses; its graph is dropped at once.
  std::vector<Tensor> args;
  for (const Tensor& t : inputs) args.push_back(as_leaf(t));
  Tensor y = fn(args);
  if (!y.requires_grad()) return y;
  std::vector<Tensor> recorded = inputs;
  for (const Tensor& t : other_leaves(y, args)) recorded.push_back(t);
  for (size_t i = 0; i < recorded.size(); ++i)
    (i < inputs.size() ? recompute.inputs : recompute.others).push_back(save(recorded[i]));
  return record("checkpoint", Fresh::adopt(y.detach()), std::span<const Tensor>(recorded),
                std::move(recompute));
}

}  // namespace tern
