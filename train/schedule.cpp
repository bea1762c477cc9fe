#include "tern/train/schedule.h"

#include <algorithm>

#include "tern/core/base/error.h"

namespace tern::train {

optim::Schedule make_schedule(const ScheduleOptions& o, int64_t steps) {
  const int64_t warmup = std::max<int64_t>(o.warmup, 1);
  if (o.name == "constant") return optim::constant(o.warmup);
  if (o.name == "noam") return optim::noam(o.dim, warmup);
  if (o.name == "inverse-sqrt") return optim::inverse_sqrt(warmup);
  check(o.name == "cosine" || o.name == "linear",
        "schedule: there is no '{}'; there are constant, cosine, linear, noam, inverse-sqrt",
        o.name);
  check(o.warmup < steps,
        "schedule: a {} one with a warm-up of {} steps needs a longer run than one of {} steps; "
        "take fewer than {}",
        o.name, o.warmup, steps, steps);
  const optim::WarmupOptions shape{.warmup = o.warmup, .total = steps};
  return o.name == "cosine" ? optim::cosine(shape) : optim::linear_decay(shape);
}

bool depends_on_length(const std::string& name) { return name == "cosine" || name == "linear"; }

int64_t fitting_warmup(const ScheduleOptions& o, int64_t steps) {
  return o.name == "noam" ? o.warmup : std::min(o.warmup, steps / 4);
}

}  // namespace tern::train
