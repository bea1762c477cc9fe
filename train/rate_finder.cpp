// Takes the steps with growing rates, restores model, optimizer and loader, and reads a rate off
// the curve.
#include "tern/train/rate_finder.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/error.h"
#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/train/learner.h"

namespace tern::training {
namespace {

NamedTensors copies(const NamedTensors& state) {
  NoGradGuard no_grad;
  NamedTensors out;
  for (const auto& [name, t] : state) out.emplace_back(name, clone(t));
  return out;
}

/// A copy of the state of model and optimizer, which put_back() restores.
class Before {
 public:
  Before(const nn::ModuleRef& model, optim::Optimizer& optimizer)
      : model_(model),
        optimizer_(optimizer),
        weights_(copies(nn::state_dict(model_))),
        state_(copies(optimizer.state_dict())),
        generators_(nn::generator_state(model_)),
        factor_(optimizer.lr_factor()) {}
  void put_back() {
    nn::load_state_dict(model_, weights_);
    optimizer_.load_state_dict(state_);
    optimizer_.set_lr_factor(factor_);
    optimizer_.zero_grad();
    nn::load_generator_state(model_, generators_);
  }

 private:
  nn::ModuleRef model_;
  optim::Optimizer& optimizer_;
  NamedTensors weights_, state_, generators_;
  double factor_;
};

void check_options(const RateFinderOptions& o, double lr) {
  check(o.lowest > 0 && o.highest > o.lowest && std::isfinite(o.highest),
        "find_rate: the rates must rise from above 0, they go from {} to {}", o.lowest, o.highest);
  check(o.steps >= 2, "find_rate: {} steps; at least 2", o.steps);
  check(o.smoothing >= 0 && o.smoothing < 1, "find_rate: smoothing must lie in [0, 1), it is {}",
        o.smoothing);
  check(o.diverged > 1, "find_rate: diverged is {}; it must be above 1", o.diverged);
  check(lr > 0,
        "find_rate: the optimizer's rate is {}; it must be above 0, because the rates of other "
        "groups keep their proportion to it",
        lr);
}

size_t least(const std::vector<RatePoint>& points) {
  check(!points.empty(), "RateCurve: it has no points");
  return static_cast<size_t>(
      std::min_element(points.begin(), points.end(),
                       [](const RatePoint& a, const RatePoint& b) { return a.loss < b.loss; }) -
      points.begin());
}

RateCurve take_steps(const nn::ModuleRef& model, optim::Optimizer& optimizer,
                     const std::function<Tensor()>& loss, const RateFinderOptions& o) {
  optimizer.set_lr_factor(1);
  const double lr = optimizer.lr();
  check_options(o, lr);
  optimizer.zero_grad();
  const double grows = std::log(o.highest / o.lowest) / static_cast<double>(o.steps - 1);
  const auto rate = [&](int64_t step) {
    return o.lowest * std::exp(grows * static_cast<double>(step));
  };
  Learner learner(model, optimizer,
                  {.schedule = [&](int64_t step) { return rate(step) / lr; },
                   .clip = o.clip,
                   .allocate_state = false});
  RateCurve curve;
  double mean = 0, smallest = 0;
  try {
    for (int64_t step = 0; step < o.steps && !curve.diverged; ++step) {
      mean = o.smoothing * mean + (1 - o.smoothing) * learner.backward(loss());
      const double smoothed = mean / (1 - std::pow(o.smoothing, static_cast<double>(step + 1)));
      smallest = step == 0 ? smoothed : std::min(smallest, smoothed);
      learner.step();
      curve.diverged = smoothed > smallest + (o.diverged - 1) * std::abs(smallest);
      if (!curve.diverged) curve.points.push_back({rate(step), smoothed});
    }
  } catch (const Diverged&) {
    if (curve.points.empty()) throw;
    curve.diverged = true;
  }
  return curve;
}

}  // namespace

double RateCurve::steepest() const {
  const size_t end = least(points);
  double steepest = 0, lr = 0;
  for (size_t i = 0; i < end; ++i) {
    const double slope = (points[i + 1].loss - points[i].loss) /
                         (std::log(points[i + 1].lr) - std::log(points[i].lr));
    if (slope < steepest) steepest = slope, lr = points[i].lr;
  }
  check(lr > 0,
        "RateCurve: the loss of {} points from rate {:.3g} on never falls; begin with a lower rate",
        points.size(), points.front().lr);
  return lr;
}

double RateCurve::minimum_by_10() const { return points.at(least(points)).lr / 10; }

RateCurve detail::find_rate(const nn::ModuleRef& model, optim::Optimizer& optimizer,
                            const std::function<Tensor()>& loss,
                            const std::function<void()>& rewind, const RateFinderOptions& o) {
  Before before(model, optimizer);
  RateCurve curve;
  try {
    curve = take_steps(model, optimizer, loss, o);
  } catch (...) {
    before.put_back();
    rewind();
    throw;
  }
  before.put_back();
  rewind();
  return curve;
}

}  // namespace tern::training
