// Schedules of the learning rate (optim/schedule.h) by name, for flags and configurations, fitted
// to the length of a run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tern/optim/schedule.h"

namespace tern::training {

struct ScheduleOptions {
  std::string name = "constant";  ///< one of schedule_names()
  int64_t warmup = 0;             ///< steps; noam and inverse-sqrt have at least 1
  int64_t dim = 0;                ///< noam: the model's width
  int64_t plateau_patience = 2;   ///< plateau: epochs without improvement that are let pass
  double plateau_factor = 0.5;    ///< plateau: then the rate is multiplied by it
};

/// The names for a flag: constant, cosine, linear, polynomial, one-cycle, cyclic, triangle,
/// inverse-sqrt, plateau, and for models that have a width noam.
std::vector<std::string> schedule_names(bool with_noam);

/// The schedule for a run of `steps`. polynomial falls as the square of what is left. one-cycle
/// rises for `warmup` steps, or 30 % of the run. cyclic goes up from a tenth in `warmup` steps, or
/// a tenth of the run, and down again. triangle rises from 0.2 in `warmup` steps, or 23 % of the
/// run, and falls to 0.07 at its end (Jordan 2024, arXiv:2404.00498). plateau is constant after its
/// warm-up, beside what make_plateau() gives. Error if there is none of that name, or if the
/// warm-up leaves one that depends on the length nothing of the run.
optim::Schedule make_schedule(const ScheduleOptions& options, int64_t steps);

/// LearnerOptions::plateau for the schedule plateau; nothing for all others. `largest`: the metric
/// is better if it is larger.
std::optional<optim::PlateauOptions> make_plateau(const ScheduleOptions& options, bool largest);

/// Whether the rate of a step depends on how long the run is (cosine, linear, polynomial,
/// one-cycle, cyclic, triangle). Then a run cannot be made longer or shorter later: it would not be
/// the same from its first step on.
bool depends_on_length(const std::string& name);

/// A warm-up that was meant for a longer run: at most a quarter of the `steps`. For noam, whose
/// warm-up says how high the rate rises, it stays as it is.
int64_t fitting_warmup(const ScheduleOptions& options, int64_t steps);

}  // namespace tern::training
