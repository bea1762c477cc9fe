// Pairs parameters with their replacements or hooks by name and makes them active for a scope. The
// substitution itself is in core/tape/substitution.h.
#include "tern/nn/weights_instead.h"

#include <algorithm>
#include <utility>

#include "tern/core/tape/op.h"
#include "tern/core/tape/substitution.h"

namespace tern::nn {
namespace {

using tern::detail::Substitution;
using tern::detail::SubstitutionScope;

NamedTensors in_order(const NamedTensors& parameters, const std::vector<Tensor>& instead) {
  check(parameters.size() == instead.size(),
        "WeightsInstead: {} tensors for {} parameters; give one for each, in their order, or some "
        "with their names",
        instead.size(), parameters.size());
  NamedTensors named;
  for (size_t i = 0; i < instead.size(); ++i) named.emplace_back(parameters[i].first, instead[i]);
  return named;
}

[[noreturn]] void fail_unknown(const char* op, const std::string& name,
                               const NamedTensors& parameters) {
  std::vector<std::string> names;
  for (const auto& [known, t] : parameters) names.push_back(known);
  const std::string nearest = nearest_name(name, names);
  fail(fmt::format("{}: there is no parameter '{}'{}", op, name,
                   nearest.empty() ? "; a buffer is no parameter"
                                   : fmt::format("; did you mean '{}'?", nearest)));
}

// The parameter with this name, not its replacement, even if `parameters` lists the replacement.
Tensor named(const char* op, const std::string& name, const NamedTensors& parameters) {
  const auto it = std::find_if(parameters.begin(), parameters.end(),
                               [&](const auto& p) { return p.first == name; });
  if (it == parameters.end()) fail_unknown(op, name, parameters);
  check(!parameter_name(it->second).empty(),
        "{}: '{}' does not come from a walk over a module, so it cannot be replaced; give "
        "nn::named_parameters(module)",
        op, name);
  Substitution* outer = tern::detail::substituting;
  return outer ? outer->parameter_of(it->second) : it->second;
}

void add_once(const char* op, std::vector<Substitution::Pair>& pairs, Substitution::Pair pair) {
  for (const Substitution::Pair& other : pairs)
    check(other.parameter.ref() != pair.parameter.ref(),
          "{}: '{}' and '{}' are the same parameter; give it once", op, other.name, pair.name);
  pairs.push_back(std::move(pair));
}

tern::detail::Ref<Substitution> active_with(std::vector<Substitution::Pair> pairs) {
  return tern::detail::Ref<Substitution>(
      new Substitution(std::move(pairs), tern::detail::substituting));
}

tern::detail::Ref<Substitution> paired(const NamedTensors& parameters,
                                       const NamedTensors& instead) {
  constexpr const char* kOp = "WeightsInstead";
  std::vector<Substitution::Pair> pairs;
  for (const auto& [name, t] : instead) {
    const Tensor parameter = named(kOp, name, parameters);
    check(t.defined(), "{}: the replacement of '{}' is undefined", kOp, name);
    check(t.shape() == parameter.shape() && t.dtype() == parameter.dtype(),
          "{}: '{}' is {} {}, its replacement is {} {}", kOp, name, parameter.dtype(),
          parameter.shape(), t.dtype(), t.shape());
    add_once(kOp, pairs, {name, parameter, t});
  }
  return active_with(std::move(pairs));
}

tern::detail::Ref<Substitution> hooked(const NamedTensors& parameters,
                                       const LinearHook::List& hooks) {
  constexpr const char* kOp = "LinearHook";
  std::vector<Substitution::Pair> pairs;
  for (const auto& [weight, fn] : hooks) {
    const Tensor parameter = named(kOp, weight, parameters);
    check(parameter.ndim() == 2, "{}: '{}' has the shape {}, but linear() takes matrices", kOp,
          weight, parameter.shape());
    check(fn != nullptr, "{}: the function is empty; give one to call", kOp);
    add_once(kOp, pairs, {weight, parameter, {}, fn});
  }
  return active_with(std::move(pairs));
}

}  // namespace

WeightsInstead::WeightsInstead(const NamedTensors& parameters, const NamedTensors& instead)
    : scope_(std::make_unique<SubstitutionScope>(paired(parameters, instead))) {}

WeightsInstead::WeightsInstead(const NamedTensors& parameters, const std::vector<Tensor>& instead)
    : WeightsInstead(parameters, in_order(parameters, instead)) {}

WeightsInstead::~WeightsInstead() = default;

std::vector<std::string> WeightsInstead::unused() const { return scope_->now().unused(); }

LinearHook::LinearHook(const NamedTensors& parameters, const List& hooks)
    : scope_(std::make_unique<SubstitutionScope>(hooked(parameters, hooks))) {}

LinearHook::LinearHook(const NamedTensors& parameters, const std::string& weight, Fn fn)
    : LinearHook(parameters, List{{weight, std::move(fn)}}) {}

LinearHook::~LinearHook() = default;

int64_t LinearHook::calls() const { return scope_->now().calls(); }

}  // namespace tern::nn
