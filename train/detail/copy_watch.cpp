// Collects the parameters that the ops of an evaluation use, and the copies among them.
#include "tern/train/detail/copy_watch.h"

#include <string_view>

#include "tern/core/tape/node.h"

namespace tern::training {

using namespace std::string_view_literals;

// Copying a module clones its weights, and assigning it copies them.
void CopyWatch::begin(const OpScope& op) {
  if (op.is_vjp()) return;
  if (op.name() == "copy_"sv && op.input(0).defined())
    fresh_.insert(op.input(0).ref()->storage.get());
  for (int i = 0; i < op.num_inputs(); ++i) {
    const Tensor& t = op.input(i);
    if (!t.defined()) continue;
    const void* const storage = t.ref()->storage.get();
    used_.insert(storage);
    const auto& node = t.ref()->node_or_frozen();
    if (!node || !node->is_leaf() || fresh_.contains(storage)) continue;
    const auto& leaf = static_cast<const tern::detail::LeafNode&>(*node);
    if (!leaf.known && leaf.copy_of) copied_.insert(leaf.copy_of->text);
  }
}

void CopyWatch::made(const OpScope& op, const Tensor& result, int) {
  if (op.name() == "clone"sv) fresh_.insert(result.ref()->storage.get());
}

void CopyWatch::check_used(const NamedTensors& parameters) const {
  for (const auto& [name, t] : parameters)
    check(
        !copied_.contains(parameter_name(t)) || used_.contains(t.ref()->storage.get()),
        "Loop: the evaluation uses a copy of the model's '{}', which no training changes. Hold the "
        "model by reference: [&] for [=] in a lambda, const auto& for auto",
        parameter_name(t));
}

}  // namespace tern::training
