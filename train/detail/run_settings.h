// The settings that decide how a training continues, as JSON for checkpoints. Inside of train only.
#pragma once

#include <string>
#include <vector>

#include "tern/nn/module_ref.h"
#include "tern/optim/optimizer.h"
#include "tern/optim/schedule.h"

namespace tern::training {

/// Sentences that say how a checkpoint's settings differ from the program's, and which of the two
/// are now in effect.
using Notes = std::vector<std::string>;

/// The rule, settings and parameters of each group of the optimizer. Also the factor of its rates,
/// unless a schedule sets it.
std::string settings_to_json(const optim::Optimizer& optimizer, bool scheduled = false);
/// Sets these settings in an optimizer. Error, without a change, if rules or groups differ.
Notes load_settings(optim::Optimizer& optimizer, const std::string& json);

/// The parameters that are frozen, and the modules that are in evaluation mode or held there. The
/// modules in evaluation mode are left out if all are, since an EvalScope may be open.
std::string modes_to_json(const nn::ModuleRef& model);
/// Sets these modes in a model.
Notes load_modes(const nn::ModuleRef& model, const std::string& json);

/// Whether all modules with a mode are in evaluation, and one of them is not frozen. A module is
/// frozen if it is held, or if it has parameters and none requires a gradient.
bool wholly_in_evaluation(const nn::ModuleRef& model);

/// Settings that come from the program ("clip", 1), by name, and the factors of the schedule for
/// some of the steps taken.
std::string recipe_to_json(const optim::NamedNumbers& recipe, const optim::Schedule& schedule = {},
                           int64_t steps = 0);
/// A note for each number that differs or is missing on one side, and one if the schedule gives
/// other factors for these steps.
Notes compare_recipe(const std::string& json, const optim::NamedNumbers& recipe,
                     const optim::Schedule& schedule = {});

}  // namespace tern::training
