// Maps names of schedules to functions of optim/schedule.h, with lengths that fit the run.
#include "tern/train/schedule.h"

#include <fmt/format.h>

#include <algorithm>

#include "tern/core/base/error.h"

namespace tern::training {
namespace {

optim::Schedule triangle(int64_t rise, int64_t steps) {
  const optim::Schedule fall = optim::linear_decay({.total = steps - rise, .last = 0.07});
  if (rise == 0) return fall;
  return optim::sequential({optim::cyclic({.base = 0.2, .up = rise}), fall}, {rise});
}

}  // namespace

std::vector<std::string> schedule_names(bool with_noam) {
  std::vector<std::string> names = {"constant",   "cosine",       "linear",
                                    "polynomial", "one-cycle",    "cyclic",
                                    "triangle",   "inverse-sqrt", "plateau"};
  if (with_noam) names.push_back("noam");
  return names;
}

bool depends_on_length(const std::string& name) {
  return name == "cosine" || name == "linear" || name == "polynomial" || name == "one-cycle" ||
         name == "cyclic" || name == "triangle";
}

optim::Schedule make_schedule(const ScheduleOptions& o, int64_t steps) {
  const int64_t warmup = std::max<int64_t>(o.warmup, 1);
  if (o.name == "constant" || o.name == "plateau") return optim::constant(o.warmup);
  if (o.name == "noam") return optim::noam(o.dim, warmup);
  if (o.name == "inverse-sqrt") return optim::inverse_sqrt(warmup);
  check(depends_on_length(o.name), "schedule: there is no '{}'; there are {}", o.name,
        fmt::join(schedule_names(true), ", "));
  check(o.warmup < steps,
        "schedule: {} with a warm-up of {} steps does not fit a run of {} steps; take fewer "
        "warm-up steps than {}",
        o.name, o.warmup, steps, steps);
  const double rise =
      o.warmup > 0 ? static_cast<double>(o.warmup) / static_cast<double>(steps) : 0.3;
  if (o.name == "one-cycle") return optim::one_cycle({.total = steps, .pct_start = rise});
  if (o.name == "triangle") return triangle(o.warmup > 0 ? o.warmup : steps * 23 / 100, steps);
  if (o.name == "cyclic")
    return optim::cyclic({.up = o.warmup > 0 ? o.warmup : std::max<int64_t>(steps / 10, 1)});
  if (o.name == "polynomial")
    return optim::polynomial({.warmup = o.warmup, .total = steps, .power = 2});
  const optim::WarmupOptions shape{.warmup = o.warmup, .total = steps};
  return o.name == "cosine" ? optim::cosine(shape) : optim::linear_decay(shape);
}

std::optional<optim::PlateauOptions> make_plateau(const ScheduleOptions& o, bool largest) {
  if (o.name != "plateau") return std::nullopt;
  return optim::PlateauOptions{
      .factor = o.plateau_factor, .patience = o.plateau_patience, .maximize = largest};
}

int64_t fitting_warmup(const ScheduleOptions& o, int64_t steps) {
  return o.name == "noam" ? o.warmup : std::min(o.warmup, steps / 4);
}

}  // namespace tern::training
