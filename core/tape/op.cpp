// Scopes of ops: a thread-local stack, the module that an op belongs to, parameter names, and the
// calls of observers.
#include "tern/core/tape/op.h"

#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/core/base/restored.h"
#include "tern/core/tape/node.h"

namespace tern {

using detail::label_of;
using detail::LeafNode;
using detail::Node;
using detail::PathLabel;
using detail::Ref;
using detail::Restored;
using detail::TensorImpl;

namespace {

thread_local const OpScope* innermost_op = nullptr;
thread_local ObserverScope* watching = nullptr;
thread_local bool muted = false;  // an observer is being called
thread_local uint64_t last_scope = 0;
thread_local const ModuleScope* working = nullptr;  // the innermost active ModuleScope

// Names are set and read rarely: by module walks, for errors, and for observers.
std::mutex labels;

// Drops the last `parts` parts of a name. One part of "decoder.linear1.weight" leaves
// "decoder.linear1"; one part of "weight" leaves "".
std::string without_last(std::string name, int parts) {
  for (; parts > 0; --parts) {
    size_t dot = name.rfind('.');
    name.resize(dot == std::string::npos ? 0 : dot);
  }
  return name;
}

}  // namespace

Ref<PathLabel> detail::label_of(const TensorImpl* t) {
  std::lock_guard lock(labels);
  return t ? t->label : Ref<PathLabel>();
}

OpScope::OpScope(const char* name, const Node* node, bool to_leaves)
    : name_(name),
      node_(node),
      pass_(node || (innermost_op && innermost_op->pass_ == Pass::backward) ? Pass::backward
                                                                            : Pass::forward),
      to_leaves_(to_leaves),
      outer_(innermost_op) {
  innermost_op = this;
}

// Observers may end their own scopes, or others', during a call. So each scope is looked up again.
template <class Fn>
void OpScope::tell(uint64_t newest, uint64_t oldest, Fn fn) {
  const Restored<bool> unwatched(muted, true);
  for (uint64_t number = newest; number >= oldest; --number) {
    const ObserverScope* w = watching;
    while (w && w->number_ > number) w = w->outer_;
    if (!w || w->number_ < oldest) return;
    number = w->number_;
    fn(w->observer_, number);
  }
}

OpScope::~OpScope() {
  innermost_op = outer_;
  if (told_newest_ == 0) return;
  tell(told_newest_, told_oldest_, [this](Observer& o, uint64_t) { o.end(*this); });
}

void OpScope::tell_begin() {
  tell(watching->number_, 1, [this](Observer& o, uint64_t number) {
    o.begin(*this);
    if (told_newest_ == 0) told_newest_ = number;
    told_oldest_ = number;
  });
}

void OpScope::tell_note(const char* name, const Note& value) {
  if (told_newest_ == 0) return;
  tell(told_newest_, told_oldest_, [&](Observer& o, uint64_t) { o.noted(*this, name, value); });
}

void OpScope::tell_made(const Tensor& result, int index) {
  if (!node_ && result.defined()) pass_module_on(result);
  if (told_newest_ == 0) return;
  tell(told_newest_, told_oldest_, [&](Observer& o, uint64_t) { o.made(*this, result, index); });
}

void OpScope::pass_module_on(const Tensor& result) const {
  std::string module = where();
  if (module.empty()) return;
  Ref<PathLabel> label(new PathLabel(module, false));
  if (const Ref<Node>& node = result.node()) node->origin = label;
  std::lock_guard lock(labels);
  if (!result.ref()->label) result.ref()->label = std::move(label);
}

// The module of a parameter among the operands; else of the innermost ModuleScope; else of the
// enclosing op; else of the newest operand.
std::string OpScope::where() const {
  if (std::string_view(name_) == "checkpoint") return "";  // it runs whole modules
  std::vector<const TensorImpl*> operands;
  if (node_) {
    if (node_->origin) return node_->origin->text;
    for (const Ref<Node>& n : node_->inputs)
      if (n && n->is_leaf()) operands.push_back(static_cast<const LeafNode*>(n.get())->owner);
  } else {
    for (int i = 0; i < num_inputs(); ++i)
      if (input(i).defined()) operands.push_back(input(i).ref().get());
  }
  std::string inherited;
  uint64_t newest = 0;
  for (const TensorImpl* t : operands) {
    Ref<PathLabel> label = label_of(t);
    if (label && label->of_parameter) return without_last(label->text, 1);
    const uint64_t made = t && t->node() ? t->node()->sequence : 0;
    if (!label || made < newest) continue;
    inherited = label->text;
    newest = made;
  }
  std::string around = working && !node_ ? working->where() : "";
  if (around.empty() && outer_) around = outer_->module();
  return around.empty() ? inherited : around;
}

int OpScope::num_gathered() const { return node_ ? static_cast<int>(node_->inputs.size()) : 0; }

Tensor OpScope::gathered(int i) const {
  Node* input = node_->inputs[static_cast<size_t>(i)].get();
  return input ? input->gathered(to_leaves_) : Tensor();
}

std::string OpScope::module() const {
  std::string module;
  for (const OpScope* op = this; op && module.empty(); op = op->outer_) module = op->where();
  return module;
}

ModuleScope::ModuleScope(const Tensor& parameter, int parts)
    : parameter_(parameter), parts_(parts), outer_(working) {
  working = this;
}

ModuleScope::~ModuleScope() { working = outer_; }

std::string ModuleScope::where() const { return without_last(parameter_name(parameter_), parts_); }

ObserverScope::ObserverScope(Observer& observer)
    : observer_(observer), outer_(watching), number_(++last_scope) {
  watching = this;
}

ObserverScope::~ObserverScope() {
  ObserverScope** link = &watching;
  while (*link && *link != this) link = &(*link)->outer_;
  if (*link) *link = outer_;
}

bool observed() { return watching && !muted; }

const OpScope* current_op() { return innermost_op; }

std::string parameter_name(const Tensor& t) {
  Ref<PathLabel> label = t.defined() ? label_of(t.ref().get()) : Ref<PathLabel>();
  return label && label->of_parameter ? label->text : "";
}

void set_parameter_name(const Tensor& t, const std::string& name) {
  std::lock_guard lock(labels);
  Ref<PathLabel>& label = t.ref()->label;
  if (name.empty()) {
    label = {};
    return;
  }
  if (label && label->of_parameter && (label->text == name || label->text.ends_with("." + name)))
    return;
  label = Ref<PathLabel>(new PathLabel(name, true));
}

}  // namespace tern
