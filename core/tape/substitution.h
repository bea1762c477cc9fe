// Tensors that stand in for parameters: nn::WeightsInstead puts them in force in a thread, and a
// checkpoint puts in force again what was in force when it ran first. Inside of tern only.
#pragma once

#include <atomic>
#include <string>
#include <unordered_map>
#include <vector>

#include "tern/core/base/intrusive.h"
#include "tern/core/tensor/tensor.h"

namespace tern::detail {

/// What stands in for which parameter. Apart from the marks of use it does not change, so that
/// graphs may hold it beyond its scope and other threads may use it.
class Substitution : public Counted {
 public:
  struct Pair {
    std::string name;
    Tensor parameter, instead;
  };
  /// Parameters that `pairs` lack are looked up in `outer` (null: nowhere).
  /// REQUIRES: shapes and types agree; each parameter comes once.
  Substitution(const std::vector<Pair>& pairs, Substitution* outer);

  /// What ops take for the parameter; null: itself.
  const Tensor* find(const TensorImpl* parameter) const;
  /// The parameter behind what find() gave; any other tensor itself.
  Tensor parameter_of(const Tensor& t) const;
  /// The names of those that find() was not asked for.
  std::vector<std::string> unused() const;

 private:
  struct Entry {
    Pair pair;
    mutable std::atomic<bool> used = false;
  };
  std::unordered_map<const TensorImpl*, Entry> entries_;
  Ref<Substitution> outer_;
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
};

}  // namespace tern::detail
