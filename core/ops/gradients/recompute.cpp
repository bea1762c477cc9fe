// checkpoint() of tape/autograd.h: the backward pass runs the function again, with the random
// numbers of its first run, instead of keeping its graph.
#include <algorithm>
#include <utility>

#include "tern/core/base/draws.h"
#include "tern/core/base/restored.h"
#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"
#include "tern/core/tape/segment.h"
#include "tern/core/tape/substitution.h"

namespace tern {
namespace {

using Function = std::function<Tensor(std::span<const Tensor>)>;

// The same elements as a new leaf, or as a plain tensor if the original needs no gradient.
Tensor as_leaf(const Tensor& t) {
  Tensor leaf = t.detach();
  if (t.requires_grad()) leaf.set_requires_grad();
  return leaf;
}

// The tensors with a gradient that fn, run after `since`, used besides its inputs: parameters of
// modules, and captured results of ops.
std::vector<Tensor> other_sources(const Tensor& out, std::span<const Tensor> inputs,
                                  uint64_t since) {
  std::vector<Tensor> others;
  for (const Tensor& source : detail::made_from(out, since)) {
    auto same = [&](const Tensor& t) { return t.requires_grad() && t.node() == source.node(); };
    if (std::none_of(inputs.begin(), inputs.end(), same)) others.push_back(source);
  }
  return others;
}

// Whether `b` contains every tensor of `a` that requires a gradient.
bool all_among(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::all_of(a.begin(), a.end(), [&](const Tensor& t) {
    return !t.requires_grad() || std::any_of(b.begin(), b.end(), [&](const Tensor& u) {
      return u.requires_grad() && u.node() == t.node();
    });
  });
}

// A function object that holds a module is copied with it, and each copy has weights of its own.
void check_no_copy(const detail::Node& node) {
  const auto& leaf = static_cast<const detail::LeafNode&>(node);
  check(leaf.known || !leaf.copy_of,
        "checkpoint: fn uses a parameter {}, which it did not use in the forward pass; capture "
        "modules by reference, because a copy has its own weights",
        detail::describe(leaf));
}

/// Resets generators to their earlier state; its destructor restores their current state.
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

/// The inputs of a segment, where its gradients stop. They start with the accumulated gradients of
/// the inputs, so that additions have the same order, and bits, as without a segment. The
/// destructor returns the gradients to the inputs.
class Ends {
 public:
  Ends(const std::vector<Tensor>& args, const Wants& wants) : wants_(wants) {
    for (size_t i = 0; i < args.size(); ++i) {
      const bool wanted = args[i].requires_grad() && wants[static_cast<int>(i)];
      tensors_.push_back(wanted ? detail::as_end(args[i]) : args[i].detach());
      lent_.push_back(false);
    }
  }
  ~Ends() { give_back(); }
  Ends(const Ends&) = delete;
  Ends& operator=(const Ends&) = delete;

  const std::vector<Tensor>& tensors() const { return tensors_; }
  void borrow() {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!tensors_[i].requires_grad()) continue;
      tensors_[i].node()->pending = wants_.take(static_cast<int>(i));
      lent_[i] = tensors_[i].node()->pending.defined();
    }
  }
  /// The gradients of inputs that had none before.
  Gradients give_back() {
    Gradients fresh(tensors_.size());
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!tensors_[i].requires_grad()) continue;
      Tensor g = std::exchange(tensors_[i].node()->pending, Tensor());
      if (lent_[i])
        wants_.put(static_cast<int>(i), std::move(g));
      else
        fresh[i] = std::move(g);
      lent_[i] = false;
    }
    return fresh;
  }

 private:
  const Wants& wants_;
  std::vector<Tensor> tensors_;
  std::vector<char> lent_;
};

thread_local bool running_again = false;

using KeptTensors = std::vector<std::vector<Tensor>>;

/// Keeps the results of in_first_run() while fn runs for the first time, or gives them again.
/// Scopes nest as those of draws.h: a first run within a second one keeps what the outer one gives.
class KeepScope {
 public:
  KeepScope(KeptTensors& kept, bool again) : kept_(kept), again_(again), outer_(current) {
    current = this;
  }
  ~KeepScope() { current = outer_; }
  KeepScope(const KeepScope&) = delete;
  KeepScope& operator=(const KeepScope&) = delete;

  static std::vector<Tensor> take(const std::function<std::vector<Tensor>()>& f, KeepScope* scope) {
    if (!scope) return f();
    if (!scope->again_) scope->kept_.push_back(take(f, scope->outer_));
    check(scope->next_ < scope->kept_.size(),
          "checkpoint: fn runs more layers that keep a state in backward than in the forward pass");
    return scope->kept_[scope->next_++];
  }
  inline static thread_local KeepScope* current = nullptr;

 private:
  KeptTensors& kept_;
  const bool again_;
  KeepScope* outer_;
  size_t next_ = 0;
};

struct Recompute {
  Function fn;
  std::vector<Rng*> rngs;
  std::vector<Rng> rngs_before;
  detail::Ref<detail::Substitution> substitution;  // active in the first run
  detail::DrawLog draws = {};
  KeptTensors kept = {};
  Shape shape = {};
  std::vector<Saved> inputs = {};
  std::vector<Saved> others = {};

  Gradients operator()(Consumed dy, const Wants& wants) const {
    std::vector<Tensor> args, rest;
    for (const Saved& s : inputs) args.push_back(s.get());
    for (const Saved& s : others) rest.push_back(s.get());
    if (grad_enabled()) return recorded_slopes(args, rest, dy, wants);
    if (!wants.to_leaves()) return slopes(args, rest, dy);
    return gathered_slopes(args, rest, std::move(dy), wants);
  }

 private:
  struct Replayed {
    Tensor y;
    uint64_t since;  // where the tape of this run begins
  };

  // Runs fn again with the random numbers of its first run. `rest`: the tensors that it used then
  // besides its inputs.
  Replayed replay(std::span<const Tensor> args, const std::vector<Tensor>& rest) const {
    Rewound rewound(rngs, rngs_before);
    const detail::Restored<bool> again(running_again, true);
    const detail::SubstitutionScope weights(substitution);
    detail::DrawLog log = draws;
    detail::DrawScope scope(log, detail::DrawScope::Mode::replay);
    KeptTensors first = kept;
    const KeepScope keeping(first, true);
    const uint64_t since = detail::tape_position();
    Tensor y = fn(args);
    scope.check_finished();
    check(y.shape() == shape,
          "checkpoint: fn gave {} in the forward pass, but {} in backward; do not change what it "
          "captures by reference before backward has run",
          shape, y.shape());
    std::vector<Tensor> used = other_sources(y, args, since);
    for (const Tensor& t : used)
      if (t.is_leaf() && !all_among({t}, rest)) check_no_copy(*t.node());
    check(all_among(used, rest) && all_among(rest, used),
          "checkpoint: fn uses other parameters or tensors in backward than in the forward pass; "
          "capture values that change, such as a loop variable, by value, and freeze or unfreeze "
          "parameters only after backward");
    return {y, since};
  }

  // Differentiates a separate segment, whose gradients end at copies of the inputs.
  Gradients slopes(const std::vector<Tensor>& args, const std::vector<Tensor>& rest,
                   const Tensor& dy) const {
    EnableGradGuard on;
    std::vector<Tensor> leaves, wanted;
    for (const Tensor& t : args) leaves.push_back(as_leaf(t));
    auto [y, since] = replay(leaves, rest);
    if (!y.requires_grad()) return Gradients(args.size() + rest.size());  // frozen since
    leaves.insert(leaves.end(), rest.begin(), rest.end());
    for (const Tensor& t : leaves)
      if (t.requires_grad()) wanted.push_back(t);
    auto found = detail::grad_since(since, {y}, wanted, {.allow_unused = true, .gradients = {dy}});
    Gradients out;
    size_t next = 0;
    for (const Tensor& t : leaves) out.push_back(t.requires_grad() ? found[next++] : Tensor());
    return out;
  }

  // Accumulates the segment's gradients directly in parameters and inputs.
  Gradients gathered_slopes(const std::vector<Tensor>& args, const std::vector<Tensor>& rest,
                            Consumed dy, const Wants& wants) const {
    EnableGradGuard on;
    Ends ends(args, wants);
    auto [y, since] = replay(ends.tensors(), rest);
    if (!y.requires_grad()) return Gradients(args.size() + rest.size());  // frozen since
    std::vector<Tensor> results;  // captured by fn; their gradients are passed on
    for (const Tensor& t : rest)
      if (!t.is_leaf()) results.push_back(t);
    std::vector<Tensor> before;
    for (const Tensor& t : results) before.push_back(std::exchange(t.node()->pending, Tensor()));
    std::vector<Tensor> stops = ends.tensors();
    std::erase_if(stops, [](const Tensor& t) { return !t.requires_grad(); });
    stops.insert(stops.end(), results.begin(), results.end());
    ends.borrow();
    detail::backward_since(since, y, std::move(dy).take(), stops);
    Gradients out = ends.give_back();
    size_t next = 0;
    for (const Tensor& t : rest) {
      out.emplace_back();
      if (t.is_leaf()) continue;
      out.back() = std::exchange(t.node()->pending, std::move(before[next]));
      ++next;
    }
    return out;
  }

  // For higher derivatives: each gradient is a function of the inputs and dy, itself a checkpoint.
  Gradients recorded_slopes(std::vector<Tensor> args, const std::vector<Tensor>& rest,
                            const Tensor& dy, const Wants& wants) const {
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
      const bool wanted = leaves[k].requires_grad() && wants[static_cast<int>(k)];
      out.push_back(wanted ? checkpoint(slope, args) : Tensor());
    }
    return out;
  }
};

}  // namespace

bool recomputing() { return running_again; }

std::vector<Tensor> detail::in_first_run(const std::function<std::vector<Tensor>()>& f) {
  return KeepScope::take(f, KeepScope::current);
}

Tensor checkpoint(const Function& fn, const std::vector<Tensor>& inputs,
                  const CheckpointOptions& options) {
  if (!grad_enabled()) return fn(inputs);
  Op op("checkpoint", inputs);
  Recompute recompute{fn, options.rngs, {}, detail::Ref(detail::substituting)};
  for (const Rng* rng : options.rngs) recompute.rngs_before.push_back(*rng);
  // Records the first run only to find what fn uses. Its graph is freed at once.
  std::vector<Tensor> args;
  for (const Tensor& t : inputs) args.push_back(as_leaf(t));
  const uint64_t since = detail::tape_position();
  Tensor y;
  {
    detail::DrawScope scope(recompute.draws, detail::DrawScope::Mode::record);
    const KeepScope keeping(recompute.kept, false);
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
