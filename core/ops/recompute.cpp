#include <algorithm>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

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
    std::vector<Tensor> args, rest;
    for (const Saved& s : inputs) args.push_back(s.get());
    for (const Saved& s : others) rest.push_back(s.get());
    return grad_enabled() ? recorded_slopes(args, rest, dy) : slopes(args, rest, dy);
  }

 private:
  Tensor replay(std::span<const Tensor> args) const {
    std::vector<Rng> now = states(rngs);
    restore(rngs, rngs_before);
    Tensor y = fn(args);
    restore(rngs, now);
    return y;
  }

  // The segment stands alone: its gradients end at copies of the inputs.
  Gradients slopes(const std::vector<Tensor>& args, const std::vector<Tensor>& rest,
                   const Tensor& dy) const {
    EnableGradGuard on;
    std::vector<Tensor> leaves, wanted;
    for (const Tensor& t : args) leaves.push_back(as_leaf(t));
    Tensor y = replay(leaves);
    leaves.insert(leaves.end(), rest.begin(), rest.end());
    for (const Tensor& t : leaves)
      if (t.requires_grad()) wanted.push_back(t);
    auto found = grad({y}, wanted, {.allow_unused = true, .gradients = {dy}});
    Gradients out;
    size_t next = 0;
    for (const Tensor& t : leaves) out.push_back(t.requires_grad() ? found[next++] : Tensor());
    return out;
  }

  // For higher derivatives: each gradient is a function of the inputs and dy, and a checkpoint.
  Gradients recorded_slopes(std::vector<Tensor> args, const std::vector<Tensor>& rest,
                            const Tensor& dy) const {
    std::vector<Tensor> leaves = args;
    leaves.insert(leaves.end(), rest.begin(), rest.end());
    args.push_back(dy);
    Gradients out;
    for (size_t k = 0; k < leaves.size(); ++k) {
      auto slope = [self = *this, rest, k](std::span<const Tensor> in) {
        size_t n = in.size() - 1;
        Tensor y = self.replay(in.first(n));
        Tensor x = k < n ? in[k] : rest[k - n];
        GradOptions options{.create_graph = true, .allow_unused = true, .gradients = {in[n]}};
        Tensor dx = y.requires_grad() ? grad({y}, {x}, options)[0] : Tensor();
        return dx.defined() ? dx : zeros_like(x);
      };
      out.push_back(leaves[k].requires_grad() ? checkpoint(slope, args) : Tensor());
    }
    return out;
  }
};

}  // namespace

Tensor checkpoint(const Function& fn, const std::vector<Tensor>& inputs,
                  const CheckpointOptions& options) {
  if (!grad_enabled()) return fn(inputs);
  Op op("checkpoint", inputs);
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
  return op.record(Fresh::adopt(y.detach()), std::span<const Tensor>(recorded),
                   std::move(recompute));
}

}  // namespace tern
