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

[[noreturn]] void fail_unknown(const std::string& name, const NamedTensors& parameters) {
  std::vector<std::string> names;
  for (const auto& [known, t] : parameters) names.push_back(known);
  const std::string nearest = nearest_name(name, names);
  fail(fmt::format("WeightsInstead: there is no parameter '{}'{}", name,
                   nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
}

// The parameter itself, where the caller has what stands in for it in an outer scope.
Tensor own(const std::string& name, const Tensor& parameter) {
  check(!parameter_name(parameter).empty(),
        "WeightsInstead: '{}' is no parameter that a walk over a module has found, and nothing "
        "would take its place; give nn::named_parameters(module)",
        name);
  Substitution* outer = tern::detail::substituting;
  return outer ? outer->parameter_of(parameter) : parameter;
}

Ref<Substitution> paired(const NamedTensors& parameters, const NamedTensors& instead) {
  std::vector<Substitution::Pair> pairs;
  for (const auto& entry : instead) {
    const auto& [name, t] = entry;
    const auto it = std::find_if(parameters.begin(), parameters.end(),
                                 [&](const auto& p) { return p.first == entry.first; });
    if (it == parameters.end()) fail_unknown(name, parameters);
    const Tensor parameter = own(name, it->second);
    check(t.defined(), "WeightsInstead: what stands in for '{}' is undefined", name);
    check(t.shape() == parameter.shape() && t.dtype() == parameter.dtype(),
          "WeightsInstead: '{}' is {} {}, what stands in for it {} {}", name, parameter.dtype(),
          parameter.shape(), t.dtype(), t.shape());
    for (const Substitution::Pair& other : pairs)
      check(other.parameter.ref() != parameter.ref(),
            "WeightsInstead: '{}' and '{}' are one parameter; give it once", other.name, name);
    pairs.push_back({name, parameter, t});
  }
  return Ref<Substitution>(new Substitution(pairs, tern::detail::substituting));
}

}  // namespace

WeightsInstead::WeightsInstead(const NamedTensors& parameters, const NamedTensors& instead)
    : scope_(std::make_unique<SubstitutionScope>(paired(parameters, instead))) {}

WeightsInstead::WeightsInstead(const NamedTensors& parameters, const std::vector<Tensor>& instead)
    : WeightsInstead(parameters, in_order(parameters, instead)) {}

WeightsInstead::~WeightsInstead() = default;

std::vector<std::string> WeightsInstead::unused() const { return scope_->now().unused(); }

}  // namespace tern::nn
