// A table of optimizers by name, with a function for each that makes it from OptimizerOptions.
#include "tern/train/optimizer.h"

#include <fmt/format.h>

#include "tern/core/base/error.h"
#include "tern/optim/adafactor.h"
#include "tern/optim/adam.h"
#include "tern/optim/adam_family.h"
#include "tern/optim/lion.h"
#include "tern/optim/muon.h"
#include "tern/optim/rmsprop.h"
#include "tern/optim/sgd.h"

namespace tern::training {
namespace {

using Made = std::unique_ptr<optim::Optimizer>;

struct Named {
  const char* name;
  Made (*make)(const OptimizerOptions&, const optim::ParameterGroups&);
  bool has_beta2;
};

template <class Kind>
Made make(const OptimizerOptions& o, const optim::ParameterGroups& groups) {
  typename Kind::Options rule{};
  rule.lr = o.lr;
  if constexpr (std::is_same_v<Kind, optim::Sgd>)
    rule.momentum = o.momentum, rule.nesterov = o.nesterov;
  if (o.weight_decay) rule.weight_decay = *o.weight_decay;
  if constexpr (requires { rule.beta2; }) rule.beta2 = o.beta2.value_or(rule.beta2);
  if constexpr (requires { rule.state_bits; })
    rule.state_bits = o.state_bits;
  else
    check(o.state_bits == 32, "{}: its state is kept in 32 bits, not in {}; adam and adamw take 8",
          o.name, o.state_bits);
  return std::make_unique<Kind>(groups, rule);
}

Made make_muon(const OptimizerOptions& o, const optim::ParameterGroups& groups) {
  check(o.state_bits == 32, "muon: its state is kept in 32 bits, not in {}; adam and adamw take 8",
        o.state_bits);
  std::vector<optim::MuonWithAdamW::Group> parts;
  bool found = false;
  for (const optim::ParameterGroup& g : groups.list) {
    optim::MuonParameters p = optim::muon_parameters(g.parameters);
    found = found || !p.hidden.empty();
    auto add = [&](NamedTensors parameters, auto rule) {
      rule.lr = g.lr.value_or(o.lr);
      if constexpr (requires { rule.beta2; }) rule.beta2 = o.beta2.value_or(rule.beta2);
      rule.weight_decay = g.weight_decay.value_or(o.weight_decay.value_or(rule.weight_decay));
      if (!parameters.empty()) parts.push_back({std::move(parameters), rule});
    };
    add(std::move(p.hidden), optim::MuonOptions{.rate = optim::MuonRate::match_rms_adamw});
    add(std::move(p.others), optim::AdamWOptions{});
  }
  check(found, "muon: no parameter is a matrix or convolution in a list of blocks; take adamw");
  return std::make_unique<optim::MuonWithAdamW>(parts);
}

template <class Kind>
concept HasBeta2 = requires(typename Kind::Options options) {
  options.beta2;
};

template <class Kind>
constexpr Named named(const char* name) {
  return {name, make<Kind>, HasBeta2<Kind>};
}

constexpr Named kAll[] = {
    named<optim::Adam>("adam"),         named<optim::AdamW>("adamw"),
    named<optim::Sgd>("sgd"),           named<optim::RmsProp>("rmsprop"),
    named<optim::Adadelta>("adadelta"), named<optim::Lion>("lion"),
    named<optim::Lamb>("lamb"),         named<optim::Adafactor>("adafactor"),
    named<optim::NAdam>("nadam"),       named<optim::RAdam>("radam"),
    {"muon", make_muon, true},
};

const Named& find(const std::string& name) {
  for (const Named& n : kAll)
    if (name == n.name) return n;
  fail(fmt::format("optimizer: there is no '{}'; there are {}", name,
                   fmt::join(optimizer_names(), ", ")));
}

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Named& n : kAll) names.emplace_back(n.name);
  return names;
}

bool has_beta2(const std::string& name) { return find(name).has_beta2; }

Made make_optimizer(const OptimizerOptions& o, const optim::ParameterGroups& groups) {
  const Named& n = find(o.name);
  check(!o.beta2 || n.has_beta2, "{}: it has no beta2", o.name);
  return n.make(o, groups);
}

}  // namespace tern::training
