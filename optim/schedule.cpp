// Schedules with a warm-up and a decay, and the factor that follows a metric (Plateau). Cycles and
// schedules made of others are in schedule_cycles.cpp.
#include "tern/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "tern/core/ops/ops.h"

namespace tern::optim {
namespace {

double ratio(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }

// A linear warm-up, then from 1 to o.last along shape, which maps progress in [0, 1] to 1 ... 0.
Schedule decaying(const char* name, const WarmupOptions& o, auto shape) {
  check(o.warmup >= 0 && o.total > o.warmup, "{}: needs 0 <= warmup < total, they are {} and {}",
        name, o.warmup, o.total);
  return [o, shape](int64_t step) {
    if (step < o.warmup) return ratio(step + 1, o.warmup);
    double progress = std::min(1.0, ratio(step - o.warmup, o.total - o.warmup));
    return o.last + (1 - o.last) * shape(progress);
  };
}

}  // namespace

Schedule constant(int64_t warmup) {
  check(warmup >= 0, "constant: the warm-up must not be negative, it is {}", warmup);
  return [warmup](int64_t step) { return step < warmup ? ratio(step + 1, warmup) : 1.0; };
}

Schedule step_decay(int64_t every, double factor) {
  check(every > 0, "step_decay: needs a positive number of steps, got {}", every);
  return
      [every, factor](int64_t step) { return std::pow(factor, static_cast<double>(step / every)); };
}

Schedule cosine(const WarmupOptions& options) {
  return decaying("cosine", options,
                  [](double p) { return 0.5 * (1 + std::cos(std::numbers::pi * p)); });
}

Schedule linear_decay(const WarmupOptions& options) {
  return decaying("linear_decay", options, [](double p) { return 1 - p; });
}

Schedule polynomial(const PolynomialOptions& o) {
  Schedule schedule = decaying("polynomial", {o.warmup, o.total, o.last},
                               [power = o.power](double p) { return std::pow(1 - p, power); });
  check(o.power > 0, "polynomial: the power must be positive, it is {}", o.power);
  return schedule;
}

Schedule noam(int64_t dim, int64_t warmup) {
  check(dim > 0 && warmup > 0, "noam: dim and warmup must be positive, they are {} and {}", dim,
        warmup);
  return [dim, warmup](int64_t step) {
    auto t = static_cast<double>(step + 1), w = static_cast<double>(warmup);
    return std::min(1 / std::sqrt(t), t / (w * std::sqrt(w))) / std::sqrt(static_cast<double>(dim));
  };
}

Schedule inverse_sqrt(int64_t warmup) {
  check(warmup > 0, "inverse_sqrt: the warm-up must be positive, it is {}", warmup);
  return [warmup](int64_t step) {
    return step < warmup ? ratio(step + 1, warmup) : std::sqrt(ratio(warmup, step + 1));
  };
}

Plateau::Plateau(const PlateauOptions& o)
    : options_(o), best_(std::numeric_limits<double>::infinity() * (o.maximize ? -1 : 1)) {
  check(o.factor > 0 && o.factor < 1, "Plateau: the factor must lie in (0, 1), it is {}", o.factor);
  check(o.patience >= 0 && o.cooldown >= 0 && o.threshold >= 0,
        "Plateau: patience, cooldown and threshold must not be negative, they are {}, {} and {}",
        o.patience, o.cooldown, o.threshold);
}

double Plateau::update(double metric) {
  const double step = options_.threshold * (options_.absolute ? 1 : std::abs(best_));
  bool better = options_.maximize ? metric > best_ + step : metric < best_ - step;
  if (std::isinf(best_)) better = options_.maximize ? metric > best_ : metric < best_;
  if (better) best_ = metric;
  bad_ = better ? 0 : bad_ + 1;
  if (cooling_ > 0) {
    --cooling_;
    bad_ = 0;
  }
  if (bad_ > options_.patience) {
    factor_ = std::max(factor_ * options_.factor, options_.smallest);
    cooling_ = options_.cooldown;
    bad_ = 0;
  }
  return factor_;
}

NamedTensors Plateau::state_dict() const {
  return {{"factor", scalar(factor_, DType::f64)},
          {"best", scalar(best_, DType::f64)},
          {"bad", scalar(bad_, DType::i64)},
          {"cooling", scalar(cooling_, DType::i64)}};
}

void Plateau::load_state_dict(const NamedTensors& state) {
  NamedTensors targets = state_dict();
  load_state("Plateau: load_state_dict", targets, state);
  factor_ = targets[0].second.item();
  best_ = targets[1].second.item();
  bad_ = targets[2].second.item<int64_t>();
  cooling_ = targets[3].second.item<int64_t>();
}

}  // namespace tern::optim
