// Tensors that replace parameters, and functions that change results of linear().
// nn::WeightsInstead and nn::LinearHook activate them in a thread. When a checkpoint runs again, it
// activates the substitution of its first run. Inside of tern only.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "tern/core/base/intrusive.h"
#include "tern/core/tensor/tensor.h"

namespace tern::detail {

/// Computes fn(x, x W^T + b) in place of x W^T + b.
struct LinearHook {
  using Fn = std::function<Tensor(const Tensor& x, const Tensor& y)>;
  std::string weight;
  Fn fn;
  mutable std::atomic<int64_t> calls = 0;
};

/// Maps parameters to the tensors that replace them and to the hooks of their products. It does not
/// change (except for marks of use), so graphs may hold it beyond its scope and other threads may
/// use it.
class Substitution : public Counted {
 public:
  struct Pair {
    std::string name;
    Tensor parameter;
    Tensor instead = {};       ///< undefined: the outer replacement, or the parameter itself
    LinearHook::Fn hook = {};  ///< empty: no hook
    const Tensor& used_tensor() const { return instead.defined() ? instead : parameter; }
  };
  enum class OuterHooks { seen, hidden };
  /// Looks up parameters that are not in `pairs` in `outer` (may be null). REQUIRES: shapes and
  /// types agree; each parameter occurs once.
  explicit Substitution(std::vector<Pair> pairs, Substitution* outer,
                        OuterHooks outer_hooks = OuterHooks::seen);
  /// The same pairs, with the same marks of use, inside another `outer`.
  Substitution(const Substitution& inner, Substitution* outer);

  /// The replacement of the parameter; null if there is none.
  const Tensor* find(const TensorImpl* parameter) const;
  /// The same without a mark of use, for callers that run no op.
  const Tensor* look_up(const TensorImpl* parameter) const;
  /// The parameter behind a result of find(). For any other tensor, the tensor itself.
  Tensor parameter_of(const Tensor& t) const;
  /// The hooks for a product with `weight` (a result of find() or a view of it), outermost first.
  /// Empty inside VJPs, except in the second run of a checkpoint.
  std::vector<const LinearHook*> hooks(const Tensor& weight) const;
  /// The number of calls of the pairs' hooks.
  int64_t calls() const;
  /// The names of the parameters that find() was never called for.
  std::vector<std::string> unused() const;
  const Substitution* outer() const { return outer_.get(); }

 private:
  struct Entry {
    Pair pair;
    LinearHook hook;
    mutable std::atomic<bool> used = false;
  };
  using Entries = std::unordered_map<const TensorImpl*, Entry>;
  const Entry* entry(const TensorImpl* parameter) const;
  const TensorImpl* key_of(const Tensor& weight) const;

  std::shared_ptr<Entries> entries_;
  Ref<Substitution> outer_;
  OuterHooks outer_hooks_;
  bool any_hook_;
};
inline void dispose(Substitution* s) { delete s; }

/// The active substitution of this thread, or null. Initial-exec, since every use of a parameter
/// reads it.
[[gnu::tls_model("initial-exec")]] extern thread_local constinit Substitution* substituting;

/// The tensor that ops use for this parameter, which may be undefined.
inline const Tensor& standing_in(const Tensor& parameter) {
  if (!substituting) [[likely]]
    return parameter;
  const Tensor* instead = substituting->find(parameter.ref().get());
  return instead ? *instead : parameter;
}

/// Substitution::hooks of the active substitution.
inline std::vector<const LinearHook*> hooks_of(const Tensor& weight) {
  if (!substituting) [[likely]]
    return {};
  return substituting->hooks(weight);
}

/// Error if `weight` has a hook, for ops that would not call it. `way_out`: advice for the error.
void check_unhooked(const char* op, const Tensor& weight, const char* way_out);

/// While one exists, its substitution is active in the thread (null: none is). Scopes may end in
/// any order; inner ones stay active. REQUIRES: a scope ends in the thread in which it began.
class SubstitutionScope {
 public:
  explicit SubstitutionScope(Ref<Substitution> s);
  ~SubstitutionScope();
  const Substitution& now() const { return *now_; }
  SubstitutionScope(const SubstitutionScope&) = delete;
  SubstitutionScope& operator=(const SubstitutionScope&) = delete;

 private:
  static void activate_innermost();
  void continue_without(const SubstitutionScope* ended);
  Ref<Substitution> now_;
  SubstitutionScope* outer_;  // the enclosing scope
  const Node* node_;          // the node whose VJP ran when the scope began
};

}  // namespace tern::detail
