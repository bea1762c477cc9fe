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
                   nearest.empty() ? "" : fmt::format("; did you mean '{}'?", nearest)));
}

// The parameter with this name itself, even if the caller has its replacement.
Tensor named(const char* op, const std::string& name, const NamedTensors& parameters) {
  const auto it = std::find_if(parameters.begin(), parameters.end(),
                               [&](const auto& p) { return p.first == name; });
  if (it == parameters.end()) fail_unknown(op, name, parameters);
  check(!parameter_name(it->second).empty(),
        "{}: '{}' is no parameter that a walk over a module has found, and nothing would take its "
        "place; give nn::named_parameters(module)",
        op, name);
  Substitution* outer = tern::detail::substituting;
  return outer ? outer->parameter_of(it->second) : it->second;
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
    for (const Substitution::Pair& other : pairs)
      check(other.parameter.ref() != parameter.ref(),
            "{}: '{}' and '{}' are one parameter; give it once", kOp, other.name, name);
    pairs.push_back({name, parameter, t});
  }
  return tern::detail::Ref<Substitution>(new Substitution(pairs, tern::detail::substituting));
}

// Replaces the weight by itself, so that its uses are noticed.
tern::detail::Ref<Substitution> hooked(const NamedTensors& parameters, const std::string& weight,
                                       LinearHook::Fn fn) {
  constexpr const char* kOp = "LinearHook";
  const Tensor parameter = named(kOp, weight, parameters);
  check(parameter.ndim() == 2, "{}: '{}' is {}, and linear() takes matrices", kOp, weight,
        parameter.shape());
  check(fn != nullptr, "{}: there is no function to call", kOp);
  Substitution* outer = tern::detail::substituting;
  const Tensor* instead = outer ? outer->look_up(parameter.ref().get()) : nullptr;
  return tern::detail::Ref<Substitution>(
      new Substitution({{weight, parameter, instead ? *instead : parameter}}, outer,
                       Substitution::OuterHooks::seen, std::move(fn)));
}

}  // namespace

WeightsInstead::WeightsInstead(const NamedTensors& parameters, const NamedTensors& instead)
    : scope_(std::make_unique<SubstitutionScope>(paired(parameters, instead))) {}

WeightsInstead::WeightsInstead(const NamedTensors& parameters, const std::vector<Tensor>& instead)
    : WeightsInstead(parameters, in_order(parameters, instead)) {}

WeightsInstead::~WeightsInstead() = default;

std::vector<std::string> WeightsInstead::unused() const { return scope_->now().unused(); }

LinearHook::LinearHook(const NamedTensors& parameters, const std::string& weight, Fn fn)
    : scope_(std::make_unique<SubstitutionScope>(hooked(parameters, weight, std::move(fn)))) {}

LinearHook::~LinearHook() = default;

int64_t LinearHook::calls() const { return scope_->now().calls(); }

}  // namespace tern::nn
