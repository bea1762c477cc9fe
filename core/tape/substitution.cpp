#include "tern/core/tape/substitution.h"

#include <algorithm>
#include <utility>

#include "tern/core/tape/node.h"
#include "tern/core/tape/op.h"

namespace tern::detail {
namespace {

// A view of the replacement with the parameter's name, so that errors and profiles know the module.
// The replacement keeps its own name.
Tensor named_as(const Tensor& parameter, const Tensor& instead) {
  Tensor t = instead.detach();
  if (instead.requires_grad()) t.ref()->set_node(instead.node());
  set_parameter_name(t, parameter_name(parameter));
  return t;
}

// Whether `part` is a view of elements of `whole`.
bool lies_within(const Tensor& part, const Tensor& whole) {
  if (part.ref()->storage != whole.ref()->storage) return false;
  const Extent p = extent(part.layout()), w = extent(whole.layout());
  return p.first >= w.first && p.last <= w.last;
}

// The node whose VJP ran when the scope began, if a checkpoint runs again.
thread_local constinit const Node* hooks_in = nullptr;

}  // namespace

thread_local constinit Substitution* substituting = nullptr;

Substitution::Substitution(const std::vector<Pair>& pairs, Substitution* outer,
                           OuterHooks outer_hooks, LinearHook::Fn hook)
    : outer_(outer),
      outer_hooks_(outer_hooks),
      any_hook_(hook || (outer && outer_hooks == OuterHooks::seen && outer->any_hook_)) {
  for (const Pair& p : pairs)
    entries_[p.parameter.ref().get()].pair = {p.name, p.parameter,
                                              named_as(p.parameter, p.instead)};
  if (!hook) return;
  hooked_parameter_ = pairs.front().parameter.ref().get();
  hook_.fn = std::move(hook);
}

const Substitution::Entry* Substitution::entry(const TensorImpl* parameter) const {
  for (const Substitution* s = this; s; s = s->outer_.get())
    if (const auto it = s->entries_.find(parameter); it != s->entries_.end()) return &it->second;
  return nullptr;
}

const Tensor* Substitution::look_up(const TensorImpl* parameter) const {
  const Entry* e = entry(parameter);
  return e ? &e->pair.instead : nullptr;
}

const Tensor* Substitution::find(const TensorImpl* parameter) const {
  const Entry* e = entry(parameter);
  if (!e) return nullptr;
  e->used.store(true, std::memory_order_relaxed);
  return &e->pair.instead;
}

Tensor Substitution::parameter_of(const Tensor& t) const {
  for (const Substitution* s = this; s; s = s->outer_.get())
    for (const auto& [key, entry] : s->entries_)
      if (entry.pair.instead.ref() == t.ref()) return entry.pair.parameter;
  return t;
}

std::vector<const LinearHook*> Substitution::hooks(const Tensor& weight) const {
  std::vector<const LinearHook*> found;
  if (!any_hook_ || running_node() != hooks_in) return found;
  const TensorImpl* parameter = nullptr;
  for (const Substitution* s = this; s && !parameter; s = s->outer_.get())
    for (const auto& [key, entry] : s->entries_)
      if (lies_within(weight, entry.pair.instead)) parameter = key;
  for (const Substitution* s = this; s && parameter; s = s->outer_.get()) {
    if (s->hooked_parameter_ == parameter) found.push_back(&s->hook_);
    if (s->outer_hooks_ == OuterHooks::hidden) break;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

std::vector<std::string> Substitution::unused() const {
  std::vector<std::string> names;
  for (const auto& [key, entry] : entries_)
    if (!entry.used.load(std::memory_order_relaxed)) names.push_back(entry.pair.name);
  std::sort(names.begin(), names.end());
  return names;
}

SubstitutionScope::SubstitutionScope(Ref<Substitution> s)
    : now_(std::move(s)),
      before_(std::exchange(substituting, now_.get())),
      node_before_(std::exchange(hooks_in, running_node())) {}

SubstitutionScope::~SubstitutionScope() {
  substituting = before_;
  hooks_in = node_before_;
}

}  // namespace tern::detail
