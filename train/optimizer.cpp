#include "tern/train/optimizer.h"

#include <fmt/format.h>

#include "tern/core/base/error.h"
#include "tern/optim/adafactor.h"
#include "tern/optim/adam_family.h"
#include "tern/optim/lion.h"
#include "tern/optim/muon.h"

namespace tern::train {
namespace {

using Made = std::unique_ptr<optim::Optimizer>;

struct Named {
  const char* name;
  Made (*make)(const OptimizerOptions&, const optim::ParameterGroups&);
};

template <class Kind>
Made make(const OptimizerOptions& o, const optim::ParameterGroups& groups) {
  typename Kind::Options rule{};
  rule.lr = o.lr;
  if constexpr (std::is_same_v<Kind, optim::Sgd>) rule.momentum = 0.9;
  if (o.weight_decay) rule.weight_decay = *o.weight_decay;
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
      rule.weight_decay = g.weight_decay.value_or(o.weight_decay.value_or(rule.weight_decay));
      if (!parameters.empty()) parts.push_back({std::move(parameters), rule});
    };
    add(std::move(p.hidden), optim::MuonOptions{.rate = optim::MuonRate::match_rms_adamw});
    add(std::move(p.others), optim::AdamWOptions{});
  }
  check(found, "muon: no parameter is a matrix in a list of blocks; take adamw");
  return std::make_unique<optim::MuonWithAdamW>(parts);
}

constexpr Named kAll[] = {
    {"adam", make<optim::Adam>},
    {"adamw", make<optim::AdamW>},
    {"sgd", make<optim::Sgd>},
    {"rmsprop", make<optim::RmsProp>},
    {"adadelta", make<optim::Adadelta>},
    {"lion", make<optim::Lion>},
    {"lamb", make<optim::Lamb>},
    {"adafactor", make<optim::Adafactor>},
    {"nadam", make<optim::NAdam>},
    {"radam", make<optim::RAdam>},
    {"muon", make_muon},
};

}  // namespace

std::vector<std::string> optimizer_names() {
  std::vector<std::string> names;
  for (const Named& n : kAll) names.emplace_back(n.name);
  return names;
}

Made make_optimizer(const OptimizerOptions& o, const optim::ParameterGroups& groups) {
  for (const Named& n : kAll)
    if (o.name == n.name) return n.make(o, groups);
  fail(fmt::format("optimizer: there is no '{}'; there are {}", o.name,
                   fmt::join(optimizer_names(), ", ")));
}

}  // namespace tern::train
