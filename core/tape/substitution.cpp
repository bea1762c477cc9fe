// Replacements of parameters and hooks of linear(): lookup through nested substitutions, marks of
// use, and scopes that may end in any order.
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

thread_local constinit SubstitutionScope* innermost = nullptr;

// The node_ of the innermost scope: the checkpoint whose VJP runs fn again, or null.
thread_local constinit const Node* hooks_in = nullptr;

}  // namespace

thread_local constinit Substitution* substituting = nullptr;

Substitution::Substitution(std::vector<Pair> pairs, Substitution* outer, OuterHooks outer_hooks)
    : entries_(std::make_shared<Entries>()),
      outer_(outer),
      outer_hooks_(outer_hooks),
      any_hook_(outer && outer_hooks == OuterHooks::seen && outer->any_hook_) {
  for (Pair& p : pairs) {
    Entry& e = (*entries_)[p.parameter.ref().get()];
    any_hook_ = any_hook_ || p.hook;
    e.hook.weight = p.name;
    e.hook.fn = std::move(p.hook);
    if (p.instead.defined()) p.instead = named_as(p.parameter, p.instead);
    e.pair = std::move(p);
  }
}

Substitution::Substitution(const Substitution& inner, Substitution* outer)
    : entries_(inner.entries_),
      outer_(outer),
      outer_hooks_(inner.outer_hooks_),
      any_hook_(outer && outer_hooks_ == OuterHooks::seen && outer->any_hook_) {
  for (const auto& [key, entry] : *entries_) any_hook_ = any_hook_ || entry.hook.fn;
}

const Substitution::Entry* Substitution::entry(const TensorImpl* parameter) const {
  const Entry* hooked = nullptr;
  for (const Substitution* s = this; s; s = s->outer_.get()) {
    const auto it = s->entries_->find(parameter);
    if (it == s->entries_->end()) continue;
    if (it->second.pair.instead.defined()) return &it->second;
    if (!hooked) hooked = &it->second;
  }
  return hooked;
}

const Tensor* Substitution::look_up(const TensorImpl* parameter) const {
  const Entry* e = entry(parameter);
  return e ? &e->pair.used_tensor() : nullptr;
}

const Tensor* Substitution::find(const TensorImpl* parameter) const {
  const Entry* e = entry(parameter);
  if (!e) return nullptr;
  e->used.store(true, std::memory_order_relaxed);
  return &e->pair.used_tensor();
}

Tensor Substitution::parameter_of(const Tensor& t) const {
  for (const Substitution* s = this; s; s = s->outer_.get())
    for (const auto& [key, entry] : *s->entries_)
      if (entry.pair.used_tensor().ref() == t.ref()) return entry.pair.parameter;
  return t;
}

// The parameter whose replacement is `weight` or contains it. Several replacements may share one
// storage, so the search first looks for the tensor itself, as find() returns it.
const TensorImpl* Substitution::key_of(const Tensor& weight) const {
  const auto first = [this](auto matches) -> const TensorImpl* {
    for (const Substitution* s = this; s; s = s->outer_.get())
      for (const auto& [key, entry] : *s->entries_)
        if (matches(entry.pair.used_tensor())) return key;
    return nullptr;
  };
  const TensorImpl* key = first([&](const Tensor& t) { return t.ref() == weight.ref(); });
  return key ? key : first([&](const Tensor& t) { return lies_within(weight, t); });
}

std::vector<const LinearHook*> Substitution::hooks(const Tensor& weight) const {
  std::vector<const LinearHook*> found;
  if (!any_hook_ || running_node() != hooks_in) return found;
  const TensorImpl* parameter = key_of(weight);
  for (const Substitution* s = this; s && parameter; s = s->outer_.get()) {
    const auto it = s->entries_->find(parameter);
    if (it != s->entries_->end() && it->second.hook.fn) found.push_back(&it->second.hook);
    if (s->outer_hooks_ == OuterHooks::hidden) break;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

int64_t Substitution::calls() const {
  int64_t sum = 0;
  for (const auto& [key, entry] : *entries_)
    sum += entry.hook.calls.load(std::memory_order_relaxed);
  return sum;
}

std::vector<std::string> Substitution::unused() const {
  std::vector<std::string> names;
  for (const auto& [key, entry] : *entries_)
    if (!entry.used.load(std::memory_order_relaxed)) names.push_back(entry.pair.name);
  std::sort(names.begin(), names.end());
  return names;
}

void check_unhooked(const char* op, const Tensor& weight, const char* way_out) {
  const std::vector<const LinearHook*> hooks = hooks_of(weight);
  check(hooks.empty(), "{}: '{}' has a LinearHook, which only linear() calls; {}", op,
        hooks.empty() ? "" : hooks.front()->weight, way_out);
}

SubstitutionScope::SubstitutionScope(Ref<Substitution> s)
    : now_(std::move(s)), outer_(innermost), node_(running_node()) {
  innermost = this;
  activate_innermost();
}

SubstitutionScope::~SubstitutionScope() {
  if (innermost == this)
    innermost = outer_;
  else if (innermost)
    innermost->continue_without(this);
  activate_innermost();
}

// Inner substitutions refer to the one that has ended, and graphs may hold them. So copies that
// refer to the next outer one replace them.
void SubstitutionScope::continue_without(const SubstitutionScope* ended) {
  if (!outer_) return;
  const Ref<Substitution> around = outer_->now_;
  if (outer_ == ended)
    outer_ = ended->outer_;
  else
    outer_->continue_without(ended);
  Substitution* outer = outer_ ? outer_->now_.get() : nullptr;
  if (now_ && around && now_->outer() == around.get())
    now_ = Ref<Substitution>(new Substitution(*now_, outer));
}

void SubstitutionScope::activate_innermost() {
  substituting = innermost ? innermost->now_.get() : nullptr;
  hooks_in = innermost ? innermost->node_ : nullptr;
}

}  // namespace tern::detail
