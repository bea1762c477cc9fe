#include "tern/core/op.h"

#include <mutex>
#include <utility>

#include "tern/core/record.h"

namespace tern {
namespace {

thread_local const OpScope* innermost = nullptr;
thread_local ObserverScope* watching = nullptr;

// Names are given and read rarely: by module walks, for errors, and while somebody watches.
std::mutex labels;

Ref<Label> label_of(const TensorImpl* t) {
  std::lock_guard lock(labels);
  return t ? t->label : Ref<Label>();
}

// "decoder.linear1" of "decoder.linear1.weight"; nothing of "weight".
std::string module_of(const Label& label) {
  if (!label.of_parameter) return label.text;
  size_t dot = label.text.rfind('.');
  return dot == std::string::npos ? "" : label.text.substr(0, dot);
}

// What an observer computes is not observed.
class Unwatched {
 public:
  Unwatched() : before_(std::exchange(watching, nullptr)) {}
  ~Unwatched() { watching = before_; }
  Unwatched(const Unwatched&) = delete;
  Unwatched& operator=(const Unwatched&) = delete;

 private:
  ObserverScope* before_;
};

}  // namespace

OpScope::OpScope(const char* name, Pass pass) : name_(name), pass_(pass), outer_(innermost) {
  innermost = this;
}

OpScope::~OpScope() {
  innermost = outer_;
  if (!told_) return;
  // Those that were told of the beginning and are still there.
  const ObserverScope* first = watching;
  while (first && first != told_) first = first->outer_;
  Unwatched unwatched;
  for (; first; first = first->outer_) first->observer_.end(*this);
}

void OpScope::tell_begin() {
  ObserverScope* all = watching;
  Unwatched unwatched;
  for (ObserverScope* w = all; w; w = w->outer_) w->observer_.begin(*this);
  told_ = all;
}

void OpScope::tell_made(const Tensor& result, int index) {
  ObserverScope* all = watching;
  if (pass_ == Pass::forward && result.defined()) pass_label_on(result);
  Unwatched unwatched;
  for (ObserverScope* w = all; w; w = w->outer_) w->observer_.made(*this, result, index);
}

void OpScope::pass_label_on(const Tensor& result) const {
  Ref<Label> label = find_label();
  std::string module = label ? module_of(*label) : "";
  if (module.empty()) return;
  if (label->of_parameter) label = Ref<Label>(new Label(module, false));
  if (result.node()) result.node()->origin = label;
  std::lock_guard lock(labels);
  if (!result.ref()->label) result.ref()->label = std::move(label);
}

Ref<Label> OpScope::find_label() const {
  Ref<Label> any;
  auto consider = [&](Ref<Label> label) {
    if (label && (!any || (label->of_parameter && !any->of_parameter))) any = std::move(label);
  };
  for (int i = 0; !node_ && i < num_inputs(); ++i)
    if (input(i).defined()) consider(label_of(input(i).ref().get()));
  if (!node_) return any;
  consider(node_->origin);
  for (const Ref<Node>& n : node_->inputs)
    if (n && n->is_leaf()) consider(label_of(static_cast<const LeafNode*>(n.get())->owner));
  return any;
}

std::string OpScope::module() const {
  for (const OpScope* op = this; op; op = op->outer_) {
    Ref<Label> label = op->find_label();
    std::string module = label ? module_of(*label) : "";
    if (!module.empty()) return module;
  }
  return "";
}

ObserverScope::ObserverScope(Observer& observer) : observer_(observer), outer_(watching) {
  watching = this;
}

ObserverScope::~ObserverScope() { watching = outer_; }

bool observed() { return watching != nullptr; }

const OpScope* current_op() { return innermost; }

std::string parameter_name(const Tensor& t) {
  Ref<Label> label = t.defined() ? label_of(t.ref().get()) : Ref<Label>();
  return label && label->of_parameter ? label->text : "";
}

void set_parameter_name(const Tensor& t, const std::string& name) {
  std::lock_guard lock(labels);
  Ref<Label>& label = t.ref()->label;
  if (label && label->of_parameter && (label->text == name || label->text.ends_with("." + name)))
    return;
  label = Ref<Label>(new Label(name, true));
}

}  // namespace tern
