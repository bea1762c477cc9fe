#include "tern/core/tape/substitution.h"

#include <algorithm>
#include <utility>

#include "tern/core/tape/node.h"
#include "tern/core/tape/op.h"

namespace tern::detail {
namespace {

// The tensor under the parameter's name, so that errors and profiles know the module of the ops
// that take it. The tensor itself keeps its own.
Tensor named_as(const Tensor& parameter, const Tensor& instead) {
  Tensor t = instead.detach();
  if (instead.requires_grad()) t.ref()->set_node(instead.node());
  set_parameter_name(t, parameter_name(parameter));
  return t;
}

}  // namespace

thread_local constinit Substitution* substituting = nullptr;

Substitution::Substitution(const std::vector<Pair>& pairs, Substitution* outer) : outer_(outer) {
  for (const Pair& p : pairs)
    entries_[p.parameter.ref().get()].pair = {p.name, p.parameter,
                                              named_as(p.parameter, p.instead)};
}

const Tensor* Substitution::find(const TensorImpl* parameter) const {
  for (const Substitution* s = this; s; s = s->outer_.get()) {
    const auto it = s->entries_.find(parameter);
    if (it == s->entries_.end()) continue;
    it->second.used.store(true, std::memory_order_relaxed);
    return &it->second.pair.instead;
  }
  return nullptr;
}

Tensor Substitution::parameter_of(const Tensor& t) const {
  for (const Substitution* s = this; s; s = s->outer_.get())
    for (const auto& [key, entry] : s->entries_)
      if (entry.pair.instead.ref() == t.ref()) return entry.pair.parameter;
  return t;
}

std::vector<std::string> Substitution::unused() const {
  std::vector<std::string> names;
  for (const auto& [key, entry] : entries_)
    if (!entry.used.load(std::memory_order_relaxed)) names.push_back(entry.pair.name);
  std::sort(names.begin(), names.end());
  return names;
}

SubstitutionScope::SubstitutionScope(Ref<Substitution> s)
    : now_(std::move(s)), before_(std::exchange(substituting, now_.get())) {}

SubstitutionScope::~SubstitutionScope() { substituting = before_; }

}  // namespace tern::detail
