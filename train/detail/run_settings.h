// What decides how a training goes on beside its state, as texts of JSON for checkpoints.
// Inside of train only.
#pragma once

#include <string>
#include <vector>

#include "tern/nn/module_ref.h"
#include "tern/optim/optimizer.h"
#include "tern/optim/schedule.h"

namespace tern::training {

/// Sentences of what a checkpoint has otherwise than the program, and which of the two counts.
using Notes = std::vector<std::string>;

/// The optimizer's rules, and the settings and parameters of its groups. The factor of its rates is
/// among them unless a schedule gives it.
std::string settings_to_json(const optim::Optimizer& optimizer, bool scheduled = false);
/// Gives an optimizer these settings. Error, without a change, if rules or groups differ.
Notes load_settings(optim::Optimizer& optimizer, const std::string& json);

/// Which parameters are frozen, and which modules are in evaluation mode, or held there.
std::string modes_to_json(const nn::ModuleRef& model);
/// Gives a model these modes. Which modules are in evaluation is known only where some are in
/// training.
Notes load_modes(const nn::ModuleRef& model, const std::string& json);

/// Whether all modules that have a mode are in evaluation, and one of them is not frozen: it is not
/// held there, and has no parameters or one that is trained.
bool wholly_in_evaluation(const nn::ModuleRef& model);

/// Names and numbers of a recipe that is the program's ("clip", 1), and what the schedule gave for
/// some of the steps that were taken.
std::string recipe_to_json(const optim::NamedNumbers& recipe, const optim::Schedule& schedule = {},
                           int64_t steps = 0);
/// A note for each number that differs, or that one of the two lacks; and one if the schedule gives
/// something else for those steps.
Notes compare_recipe(const std::string& json, const optim::NamedNumbers& recipe,
                     const optim::Schedule& schedule = {});

}  // namespace tern::training
