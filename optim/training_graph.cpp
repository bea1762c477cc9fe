// Compares the leaves of the loss, the parameters of the model and those of the optimizer as sets,
// and lists in one error every tensor that is missing in one of them.
#include "tern/optim/training_graph.h"

#include <unordered_set>

#include "tern/core/tape/node.h"

namespace tern::optim {
namespace {

using Set = std::unordered_set<const void*>;

const void* identity(const Tensor& t) { return t.ref().get(); }

Set identities(const NamedTensors& tensors) {
  Set out;
  for (const auto& [name, t] : tensors) out.insert(identity(t));
  return out;
}

void append(std::string& text, const char* title, const std::vector<std::string>& names) {
  if (names.empty()) return;
  text += fmt::format("{} {}: ", text.empty() ? "" : ";", title);
  for (size_t i = 0; i < names.size(); ++i) text += (i ? ", " : "") + names[i];
}

// Names of `tensors` that are trainable and not in `set`.
std::vector<std::string> outside(const NamedTensors& tensors, const Set& set) {
  std::vector<std::string> names;
  for (const auto& [name, t] : tensors)
    if (t.requires_grad() && !set.contains(identity(t))) names.push_back(name);
  return names;
}

void check_none(const std::string& wrong) {
  check(
      wrong.empty(),
      "training graph:{}. If this is intended, freeze what is not trained, or leave this check out "
      "(LearnerOptions::check_graph)",
      wrong);
}

constexpr const char* kLacks = "the optimizer lacks";

}  // namespace

void check_training_graph(const Tensor& loss, const NamedTensors& parameters,
                          const Optimizer& optimizer, const NamedTensors& others) {
  NamedTensors optimized = optimizer.parameters();
  Set model = identities(parameters), stepped = identities(optimized), reached;
  const Set others_set = identities(others);
  std::vector<std::string> unknown;
  for (const auto& leaf : tern::detail::leaf_nodes(loss)) {
    reached.insert(leaf->owner);
    if (!model.contains(leaf->owner) && !others_set.contains(leaf->owner))
      unknown.push_back("a leaf " + tern::detail::describe(*leaf));
  }
  std::string wrong;
  append(wrong, "the loss does not depend on", outside(parameters, reached));
  append(wrong, "the loss depends on leaves that are not parameters of the model", unknown);
  append(wrong, kLacks, outside(parameters, stepped));
  append(wrong, "only the optimizer has", outside(optimized, model));
  check_none(wrong);
}

void check_training_graph(const Tensor& loss, const Optimizer& optimizer) {
  check_training_graph(loss, optimizer.parameters(), optimizer);
}

void check_optimized(const NamedTensors& parameters, const Optimizer& optimizer) {
  std::string wrong;
  append(wrong, kLacks, outside(parameters, identities(optimizer.parameters())));
  check_none(wrong);
}

}  // namespace tern::optim
