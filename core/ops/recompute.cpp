#include <algorithm>

#include "tern/core/base/draws.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/core/tape/segment.h"

namespace tern {
namespace {

using Function = std::function<Tensor(std::span<const Tensor>)>;

// The same elements as a new leaf, or as a plain tensor where the original wants no gradient.
Tensor as_leaf(const Tensor& t) {
  Tensor leaf = t.detach();
  if (t.requires_grad()) leaf.set_requires_grad();
  return leaf;
}

// What fn, run from `since` on, used besides its inputs: parameters of modules, and results of ops
// that it captured.
std::vector<Tensor> other_sources(const Tensor& out, std::span<const Tensor> inputs,
                                  uint64_t since) {
  std::vector<Tensor> others;
  for (const Tensor& source : detail::made_from(out, since)) {
    auto same = [&](const Tensor& t) { return t.requires_grad() && t.node() == source.node(); };
    if (std::none_of(inputs.begin(), inputs.end(), same)) others.push_back(source);
  }
  return others;
}

// Whether every tensor of `a` that requires a gradient is one of `b`.
bool all_among(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::all_of(a.begin(), a.end(), [&](const Tensor& t) {
    return !t.requires_grad() || std::any_of(b.begin(), b.end(), [&](const Tensor& u) {
      return u.requires_grad() && u.node() == t.node();
    });
  });
}

/// Generators stand as they stood before; at its end, however that comes, as they do now.
class Rewound {
 public:
  Rewound(const std::vector<Rng*>& rngs, const std::vector<Rng>& before) : rngs_(rngs) {
    for (size_t i = 0; i < rngs.size(); ++i) {
      now_.push_back(*rngs[i]);
      *rngs[i] = before[i];
    }
  }
  ~Rewound() {
    for (size_t i = 0; i < rngs_.size(); ++i) *rngs_[i] = now_[i];
  }
  Rewound(const Rewound&) = delete;
  Rewound& operator=(const Rewound&) = delete;

 private:
  const std::vector<Rng*>& rngs_;
  std::vector<Rng> now_;
};

struct Recompute {
  Function fn;
  std::vector<Rng*> rngs;
  std::vector<Rng> rngs_before;
  detail::DrawLog draws = {};
  Shape shape = {};
  std::vector<Saved> inputs = {};
  std::vector<Saved> others = {};

  Gradients operator()(const Tensor& dy) const {
    std::vector<Tensor> args, rest;
    for (const Saved& s : inputs) args.push_back(s.get());
    for (const Saved& s : others) rest.push_back(s.get());
    return grad_enabled() ? recorded_slopes(args, rest, dy) : slopes(args, rest, dy);
  }

 private:
  struct Replayed {
    Tensor y;
    uint64_t since;  // its part of the tape begins here
  };

  // fn again, with the numbers that it drew the first time; `rest`: what it used then besides.
  Replayed replay(std::span<const Tensor> args, const std::vector<Tensor>& rest) const {
    Rewound rewound(rngs, rngs_before);
    detail::DrawLog log = draws;
    detail::DrawScope scope(log, detail::DrawScope::Mode::replay);
    const uint64_t since = detail::tape_position();
    Tensor y = fn(args);
    scope.check_finished();
    check(y.shape() == shape,
          "checkpoint: fn gave {} when it ran first and gives {} when it runs again in backward; "
          "what it captures by reference must stay as it is until then",
          shape, y.shape());
    std::vector<Tensor> used = other_sources(y, args, since);
    check(
        all_among(used, rest) && all_among(rest, used),
        "checkpoint: fn uses other parameters or results when it runs again in backward than when "
        "it ran first; capture by value what changes until then, such as the variable of a loop");
    return {y, since};
  }

  // The segment stands alone: its gradients end at copies of the inputs.
  Gradients slopes(const std::vector<Tensor>& args, const std::vector<Tensor>& rest,
                   const Tensor& dy) const {
    EnableGradGuard on;
    std::vector<Tensor> leaves, wanted;
    for (const Tensor& t : args) leaves.push_back(as_leaf(t));
    auto [y, since] = replay(leaves, rest);
    leaves.insert(leaves.end(), rest.begin(), rest.end());
    for (const Tensor& t : leaves)
      if (t.requires_grad()) wanted.push_back(t);
    auto found = detail::grad_since(since, {y}, wanted, {.allow_unused = true, .gradients = {dy}});
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
        auto [y, since] = self.replay(in.first(n), rest);
        Tensor x = k < n ? in[k] : rest[k - n];
        GradOptions options{.create_graph = true, .allow_unused = true, .gradients = {in[n]}};
        Tensor dx = y.requires_grad() ? detail::grad_since(since, {y}, {x}, options)[0] : Tensor();
        return dx.defined() ? dx : zeros(x.node()->shape, x.dtype());
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
  Recompute recompute{fn, options.rngs, {}};
  for (const Rng* rng : options.rngs) recompute.rngs_before.push_back(*rng);
  // The first pass is recorded only to find what fn uses; its graph is dropped at once.
  std::vector<Tensor> args;
  for (const Tensor& t : inputs) args.push_back(as_leaf(t));
  const uint64_t since = detail::tape_position();
  Tensor y;
  {
    detail::DrawScope scope(recompute.draws, detail::DrawScope::Mode::record);
    y = fn(args);
  }
  if (!y.requires_grad()) return y;
  recompute.shape = y.shape();
  std::vector<Tensor> recorded = inputs;
  for (const Tensor& t : other_sources(y, args, since)) recorded.push_back(t);
  for (size_t i = 0; i < recorded.size(); ++i)
    (i < inputs.size() ? recompute.inputs : recompute.others).push_back(save(recorded[i]));
  return op.record(Fresh::adopt(y.detach()), std::span<const Tensor>(recorded),
                   std::move(recompute));
}

}  // namespace tern
