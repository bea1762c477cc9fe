// Makes learning-rate schedules (optim/schedule.h) by name, for flags and configurations, fitted to
// the length of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tern/optim/schedule.h"

namespace tern::training {

struct ScheduleOptions {
  std::string name = "constant";  ///< one of schedule_names()
  int64_t warmup = 0;             ///< steps of warm-up; 0 counts as 1 for noam and inverse-sqrt
  int64_t dim = 0;                ///< noam: the model's width
  int64_t plateau_patience = 2;   ///< plateau: as PlateauOptions::patience, in epochs
  double plateau_factor = 0.5;    ///< plateau: factor of the rate at a reduction
};

/// The names for a flag: constant, cosine, linear, polynomial, one-cycle, cyclic, triangle,
/// inverse-sqrt, plateau; and noam, for models that have a width.
std::vector<std::string> schedule_names(bool with_noam);

/// The schedule for a run of `steps`. polynomial falls with the square of the remaining steps.
/// one-cycle rises for `warmup` steps, or 30 % of the run. cyclic rises from a tenth in `warmup`
/// steps, or a tenth of the run, and falls again. triangle rises from 0.2 in `warmup` steps, or 23
/// % of the run, and falls to 0.07 at its end (Jordan 2024, arXiv:2404.00498). plateau is constant
/// after its warm-up; make_plateau() gives the other factor. Error if there is no schedule of that
/// name, or if it depends on the length and the warm-up is not shorter than the run.
optim::Schedule make_schedule(const ScheduleOptions& options, int64_t steps);

/// LearnerOptions::plateau for the schedule "plateau"; std::nullopt for all others. `largest`: a
/// larger metric is better.
std::optional<optim::PlateauOptions> make_plateau(const ScheduleOptions& options, bool largest);

/// Whether the rate of a step depends on the length of the run (cosine, linear, polynomial,
/// one-cycle, cyclic, triangle). Such a run cannot be made longer or shorter later, since all of
/// its steps would have had other rates.
bool depends_on_length(const std::string& name);

/// Fits a warm-up that was meant for a longer run: at most a quarter of `steps`. The warm-up of
/// noam stays unchanged, since it decides how high the rate rises.
int64_t fitting_warmup(const ScheduleOptions& options, int64_t steps);

}  // namespace tern::training
