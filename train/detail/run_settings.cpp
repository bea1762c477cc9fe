// Settings of optimizers, modes of modules and the recipe of a run as JSON, with a sentence for
// each difference between checkpoint and program.
#include "tern/train/detail/run_settings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/io/json_value.h"
#include "tern/nn/module.h"
#include "tern/train/detail/json_number.h"

namespace tern::training {
namespace {

using nlohmann::json;
using optim::NamedNumbers;
using Names = std::vector<std::string>;

json pairs_of(const NamedNumbers& numbers) {
  json pairs = json::array();
  for (const auto& [name, value] : numbers) pairs.push_back({name, number(value)});
  return pairs;
}

NamedNumbers numbers_of(const JsonValue& pairs) {
  NamedNumbers all;
  for (const JsonValue& pair : pairs.elements())
    all.emplace_back(pair.at(0).text(), number(pair.at(1)));
  return all;
}

Names names_of(const JsonValue& list) {
  Names all;
  for (const JsonValue& name : list.elements()) all.push_back(name.text());
  return all;
}

std::set<std::string> set_of(const JsonValue& list) {
  const Names names = names_of(list);
  return {names.begin(), names.end()};
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

// A schedule uses functions of the C library (cos, pow), which may differ in the last bits.
bool about_the_same(double a, double b) {
  return same_number(a, b) || std::abs(a - b) <= 1e-12 * std::abs(b);
}

const double* value_of(const NamedNumbers& numbers, const std::string& name) {
  for (const auto& [n, value] : numbers)
    if (n == name) return &value;
  return nullptr;
}

// "'a.weight' and 3 others".
std::string some_of(const Names& names) {
  const size_t more = names.size() - 1;
  return fmt::format("'{}'{}", names[0],
                     more == 0   ? ""
                     : more == 1 ? " and 1 other"
                                 : fmt::format(" and {} others", more));
}

// The first name that is in only one of the two lists; "" if there is none.
std::string in_one_alone(Names a, Names b) {
  std::ranges::sort(a), std::ranges::sort(b);
  Names alone;
  std::ranges::set_symmetric_difference(a, b, std::back_inserter(alone));
  return alone.empty() ? "" : alone[0];
}

void check_group(const optim::Optimizer& optimizer, size_t i, const JsonValue& group) {
  const std::string& rule = group.at("rule").text();
  check(rule == optimizer.rule_name(i),
        "it was written with {}, and this optimizer is {}, which cannot resume from another rule's "
        "state",
        rule, optimizer.rule_name(i));
  const std::string alone = in_one_alone(names_of(group.at("parameters")), optimizer.names_in(i));
  check(alone.empty(),
        "its group {} of parameters differs from the optimizer's: only one of the two has '{}'", i,
        alone);
}

Notes load_group(optim::Optimizer& optimizer, size_t i, const NamedNumbers& kept) {
  const std::string where =
      optimizer.num_groups() > 1 ? fmt::format(" of the optimizer's group {}", i) : "";
  const NamedNumbers given = optimizer.settings(i);
  Notes notes;
  NamedNumbers changed;
  for (const auto& [name, value] : kept) {
    const double* const here = value_of(given, name);
    if (here && same_number(*here, value)) continue;
    changed.emplace_back(name, value);
    if (here)
      notes.push_back(fmt::format("{}{} is {:g} as in the checkpoint, not {:g} as in the program",
                                  name, where, value, *here));
  }
  optimizer.set_settings(changed, i);
  return notes;
}

}  // namespace

std::string settings_to_json(const optim::Optimizer& optimizer, bool scheduled) {
  json groups = json::array();
  for (size_t i = 0; i < optimizer.num_groups(); ++i)
    groups.push_back({{"rule", optimizer.rule_name(i)},
                      {"settings", pairs_of(optimizer.settings(i))},
                      {"parameters", optimizer.names_in(i)}});
  const double lr_factor = scheduled ? 1 : optimizer.lr_factor();
  return json{{"lr_factor", number(lr_factor)}, {"groups", groups}}.dump();
}

Notes load_settings(optim::Optimizer& optimizer, const std::string& text) {
  const JsonDocument document(text);
  const std::vector<JsonValue> groups = document.root().at("groups").elements();
  check(groups.size() == optimizer.num_groups(),
        "it has {} groups of parameters, and this optimizer has {}", groups.size(),
        optimizer.num_groups());
  std::vector<NamedNumbers> kept;
  for (size_t i = 0; i < groups.size(); ++i) {
    check_group(optimizer, i, groups[i]);
    kept.push_back(numbers_of(groups[i].at("settings")));
  }
  const double factor = number(document.root().at("lr_factor"));
  Notes notes;
  for (size_t i = 0; i < kept.size(); ++i)
    for (std::string& note : load_group(optimizer, i, kept[i])) notes.push_back(std::move(note));
  optimizer.set_lr_factor(factor);
  return notes;
}

// ---- Modes ------------------------------------------------------------------------------------

namespace {

// The names of the modules that have a mode, and the modes.
std::vector<std::pair<std::string, nn::TrainingMode*>> modes_of(const nn::ModuleRef& model) {
  std::vector<std::pair<std::string, nn::TrainingMode*>> modes;
  for (const nn::detail::Slot& slot : nn::detail::walk(model))
    if (const auto* mode = std::get_if<nn::TrainingMode*>(&slot.field)) {
      const size_t dot = slot.name.rfind('.');
      modes.emplace_back(dot == std::string::npos ? "" : slot.name.substr(0, dot), *mode);
    }
  return modes;
}

// Whether the module has parameters, and none of them requires a gradient.
bool is_frozen(const std::string& module, const NamedTensors& parameters) {
  bool frozen = false;
  for (const auto& [name, p] : parameters) {
    if (!module.empty() && !name.starts_with(module + ".")) continue;
    if (p.requires_grad()) return false;
    frozen = true;
  }
  return frozen;
}

}  // namespace

std::string modes_to_json(const nn::ModuleRef& model) {
  json frozen = json::array(), held = json::array(), evaluation = json::array();
  for (const auto& [name, p] : nn::named_parameters(model))
    if (!p.requires_grad()) frozen.push_back(name);
  bool trains = false;
  for (const auto& [name, mode] : modes_of(model)) {
    trains = trains || mode->wanted();
    if (!mode->wanted()) evaluation.push_back(name);
    if (mode->held()) held.push_back(name);
  }
  json j = {{"frozen", frozen}, {"held", held}};
  if (trains) j["evaluation"] = evaluation;  // if none trains, an EvalScope may be open
  return j.dump();
}

Notes load_modes(const nn::ModuleRef& model, const std::string& text) {
  const JsonDocument document(text);
  const JsonValue j = document.root();
  const std::set<std::string> frozen = set_of(j.at("frozen")), held = set_of(j.at("held"));
  std::optional<std::set<std::string>> evaluation;
  if (j.has("evaluation")) evaluation = set_of(j.at("evaluation"));
  Names changed[2], moved[2];  // to be frozen, to be trained; to evaluation, to training
  for (const auto& [name, p] : nn::named_parameters(model)) {
    const bool train = !frozen.contains(name);
    if (p.requires_grad() == train) continue;
    Tensor(p).set_requires_grad(train);
    changed[train].push_back(name);
  }
  for (const auto& [name, mode] : modes_of(model)) {
    const bool before = *mode;
    mode->hold(held.contains(name));
    if (evaluation) *mode = !evaluation->contains(name);
    if (*mode != before) moved[*mode].push_back(name);
  }
  Notes notes;
  const auto note = [&notes](const Names& names, const char* now, const char* before) {
    if (!names.empty())
      notes.push_back(fmt::format("{} {} {} as in the checkpoint, not {} as in the program",
                                  some_of(names), names.size() > 1 ? "are" : "is", now, before));
  };
  note(changed[0], "frozen", "trained");
  note(changed[1], "trained", "frozen");
  note(moved[0], "in evaluation mode", "in training");
  note(moved[1], "in training", "in evaluation mode");
  return notes;
}

bool wholly_in_evaluation(const nn::ModuleRef& model) {
  const auto modes = modes_of(model);
  const auto trains = [](const auto& named) { return *named.second; };
  if (modes.empty() || std::any_of(modes.begin(), modes.end(), trains)) return false;
  const NamedTensors parameters = nn::named_parameters(model);
  return !std::all_of(modes.begin(), modes.end(), [&](const auto& named) {
    return named.second->held() || is_frozen(named.first, parameters);
  });
}

// ---- The recipe -------------------------------------------------------------------------------

namespace {

double factor_in(const optim::Schedule& schedule, int64_t step) {
  return schedule ? schedule(step) : 1;
}

void compare_numbers(const NamedNumbers& then, const NamedNumbers& now, Notes& notes) {
  const auto word = [](const double* value) {
    return value ? fmt::format("{:g}", *value) : "none";
  };
  const auto compare = [&](const std::string& name) {
    const double *const a = value_of(now, name), *const b = value_of(then, name);
    if (!a || !b || !same_number(*a, *b))
      notes.push_back(fmt::format("{} is {} from here on, as in the program; it was {}", name,
                                  word(a), word(b)));
  };
  for (const auto& [name, value] : now) compare(name);
  for (const auto& [name, value] : then)
    if (!value_of(now, name)) compare(name);
}

}  // namespace

std::string recipe_to_json(const NamedNumbers& recipe, const optim::Schedule& schedule,
                           int64_t steps) {
  json factors = json::array();
  constexpr int64_t kPlaces = 4;  // number of sampled steps after the first
  for (int64_t i = 0; i <= kPlaces && steps > 0; ++i) {
    const int64_t step = (steps - 1) * i / kPlaces;
    factors.push_back({step, number(factor_in(schedule, step))});
  }
  return json{{"numbers", pairs_of(recipe)}, {"schedule", factors}}.dump();
}

Notes compare_recipe(const std::string& text, const NamedNumbers& now,
                     const optim::Schedule& schedule) {
  const JsonDocument document(text);
  const JsonValue j = document.root();
  Notes notes;
  compare_numbers(numbers_of(j.at("numbers")), now, notes);
  for (const JsonValue& pair : j.at("schedule").elements()) {
    const int64_t step = pair.at(0).integer();
    const double then = number(pair.at(1)), here = factor_in(schedule, step);
    if (about_the_same(here, then)) continue;
    notes.push_back(
        fmt::format("the schedule changes from here on, as in the program: it multiplies the rate "
                    "by {:g} in step {}; it was {:g}",
                    here, step + 1, then));
    break;
  }
  return notes;
}

}  // namespace tern::training
