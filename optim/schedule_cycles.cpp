// Schedules that rise and fall (one_cycle, cyclic), and schedules made of others.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "tern/core/base/error.h"
#include "tern/optim/schedule.h"

namespace tern::optim {
namespace {

struct Phase {
  double end, from, to;  // the step at which it ends, and its first and last factor
};

double annealed(Anneal anneal, double from, double to, double progress) {
  switch (anneal) {
    case Anneal::cos:
      return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * progress));
    case Anneal::linear:
      return from + (to - from) * progress;
  }
  fail_unhandled("Anneal", anneal);
}

double height(const CyclicOptions& o, double cycle, double step) {
  switch (o.mode) {
    case Cycle::triangular:
      return 1;
    case Cycle::triangular2:
      return std::pow(2, 1 - cycle);
    case Cycle::exp_range:
      return std::pow(o.gamma, step);
  }
  fail_unhandled("Cycle", o.mode);
}

void check_all_there(const char* name, const std::vector<Schedule>& schedules) {
  check(!schedules.empty(), "{}: needs at least one schedule", name);
  for (const Schedule& s : schedules) check(static_cast<bool>(s), "{}: a schedule is empty", name);
}

}  // namespace

Schedule one_cycle(const OneCycleOptions& o) {
  check(o.total > 0, "one_cycle: needs a positive total of steps, got {}", o.total);
  check(o.pct_start >= 0 && o.pct_start <= 1, "one_cycle: pct_start must lie in [0, 1], it is {}",
        o.pct_start);
  check(o.div_factor > 0 && o.final_div_factor > 0,
        "one_cycle: the factors must be positive, they are {} and {}", o.div_factor,
        o.final_div_factor);
  const double first = 1 / o.div_factor, last = first / o.final_div_factor;
  const double steps = static_cast<double>(o.total), rise = o.pct_start * steps;
  std::vector<Phase> phases = {{rise - 1, first, 1}};
  if (o.three_phase) phases.push_back({2 * rise - 2, 1, first});
  phases.push_back({steps - 1, o.three_phase ? first : 1, last});
  return [phases, o](int64_t step) {
    const double at = std::min(static_cast<double>(step), phases.back().end);
    double start = 0;
    size_t i = 0;
    for (; i + 1 < phases.size() && at > phases[i].end; ++i) start = phases[i].end;
    const double length = phases[i].end - start;
    return annealed(o.anneal, phases[i].from, phases[i].to,
                    length > 0 ? std::clamp((at - start) / length, 0.0, 1.0) : 1);
  };
}

Schedule cyclic(const CyclicOptions& o) {
  check(o.base >= 0 && o.base <= 1,
        "cyclic: base is a fraction of the rate and must lie in [0, 1], it is {}", o.base);
  check(o.up > 0 && o.down >= 0,
        "cyclic: up must be positive and down not negative, they are {} and {}", o.up, o.down);
  check(o.gamma > 0, "cyclic: gamma must be positive, it is {}", o.gamma);
  return [o](int64_t step) {
    const int64_t length = o.up + (o.down > 0 ? o.down : o.up), at = step % length;
    const double rising = static_cast<double>(at) / static_cast<double>(o.up);
    const double falling = static_cast<double>(length - at) / static_cast<double>(length - o.up);
    const double cycle = static_cast<double>(1 + step / length);
    return o.base +
           (1 - o.base) * std::min(rising, falling) * height(o, cycle, static_cast<double>(step));
  };
}

Schedule sequential(std::vector<Schedule> schedules, std::vector<int64_t> milestones) {
  check_all_there("sequential", schedules);
  check(milestones.size() + 1 == schedules.size(),
        "sequential: {} schedules need {} milestones, got {}", schedules.size(),
        schedules.size() - 1, milestones.size());
  for (size_t i = 0; i < milestones.size(); ++i)
    check(milestones[i] > (i == 0 ? 0 : milestones[i - 1]),
          "sequential: milestones must be positive and ascend, number {} is {}", i, milestones[i]);
  return [schedules = std::move(schedules), milestones = std::move(milestones)](int64_t step) {
    const auto next = std::upper_bound(milestones.begin(), milestones.end(), step);
    const int64_t start = next == milestones.begin() ? 0 : *(next - 1);
    return schedules[static_cast<size_t>(next - milestones.begin())](step - start);
  };
}

Schedule chained(std::vector<Schedule> schedules) {
  check_all_there("chained", schedules);
  return [schedules = std::move(schedules)](int64_t step) {
    double factor = 1;
    for (const Schedule& s : schedules) factor *= s(step);
    return factor;
  };
}

}  // namespace tern::optim
