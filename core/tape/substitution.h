// Tensors that stand in for parameters, and functions that change results of linear():
// nn::WeightsInstead and nn::LinearHook put them in force in a thread, and a checkpoint puts in
// force again what was in force when it ran first. Inside of tern only.
#pragma once

#include <atomic>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tern/core/base/intrusive.h"
#include "tern/core/tensor/tensor.h"

namespace tern::detail {

/// fn(x, x W^T + b) in the place of x W^T + b.
struct LinearHook {
  using Fn = std::function<Tensor(const Tensor& x, const Tensor& y)>;
  Fn fn;
  mutable std::atomic<int64_t> calls = 0;
};

/// What stands in for which parameter. Apart from the marks of use it does not change, so that
/// graphs may hold it beyond its scope and other threads may use it.
class Substitution : public Counted {
 public:
  struct Pair {
    std::string name;
    Tensor parameter, instead;
  };
  enum class OuterHooks { seen, hidden };
  /// Parameters that `pairs` lack are looked up in `outer` (null: nowhere). `hook` (empty: none) is
  /// for the first pair. REQUIRES: shapes and types agree; each parameter comes once.
  explicit Substitution(const std::vector<Pair>& pairs, Substitution* outer,
                        OuterHooks outer_hooks = OuterHooks::seen, LinearHook::Fn hook = {});

  /// What ops take for the parameter; null: itself.
  const Tensor* find(const TensorImpl* parameter) const;
  /// The same without a mark of use: for who asks for no op.
  const Tensor* look_up(const TensorImpl* parameter) const;
  /// The parameter behind what find() gave; any other tensor itself.
  Tensor parameter_of(const Tensor& t) const;
  /// For a product with `weight`, a parameter as find() gives it or a view of it, the outermost
  /// first. None inside of VJPs, but for what a checkpoint runs again.
  std::vector<const LinearHook*> hooks(const Tensor& weight) const;
  /// How often the hook of the first pair was called.
  int64_t calls() const { return hook_.calls.load(std::memory_order_relaxed); }
  /// The names of those that find() was not asked for.
  std::vector<std::string> unused() const;

 private:
  struct Entry {
    Pair pair;
    mutable std::atomic<bool> used = false;
  };
  const Entry* entry(const TensorImpl* parameter) const;

  std::unordered_map<const TensorImpl*, Entry> entries_;
  Ref<Substitution> outer_;
  OuterHooks outer_hooks_;
  const TensorImpl* hooked_parameter_ = nullptr;
  LinearHook hook_;
  bool any_hook_;
};
inline void dispose(Substitution* s) { delete s; }

/// What is in force in this thread, or null. Every use of a parameter looks, so without a call.
[[gnu::tls_model("initial-exec")]] extern thread_local constinit Substitution* substituting;

/// What an op takes for this parameter (which may be undefined).
inline const Tensor& standing_in(const Tensor& parameter) {
  if (!substituting) [[likely]]
    return parameter;
  const Tensor* instead = substituting->find(parameter.ref().get());
  return instead ? *instead : parameter;
}

/// Substitution::hooks of what is in force.
inline std::vector<const LinearHook*> hooks_of(const Tensor& weight) {
  if (!substituting) [[likely]]
    return {};
  return substituting->hooks(weight);
}

/// While it lives, this is in force in the thread (null: nothing). REQUIRES: scopes of a thread end
/// in the reverse order.
class SubstitutionScope {
 public:
  explicit SubstitutionScope(Ref<Substitution> s);
  ~SubstitutionScope();
  const Substitution& now() const { return *now_; }
  SubstitutionScope(const SubstitutionScope&) = delete;
  SubstitutionScope& operator=(const SubstitutionScope&) = delete;

 private:
  Ref<Substitution> now_;
  Substitution* before_;
  const Node* node_before_;
};

}  // namespace tern::detail
