// Finds a learning rate before a training (Smith 2015, "Cyclical Learning Rates for Training Neural
// Networks", section 3.3; fastai's lr_find). It takes some steps with rates that grow
// exponentially, until the loss diverges. At a good rate the loss falls fastest; that is well below
// the rate of the smallest loss:
//
//   const training::RateCurve curve = training::find_rate(
//       model, optimizer, loader, [&](const Batch& b) { return cross_entropy(model(b.x), b.y); });
//   for (const training::RatePoint& p : curve.points) fmt::print("{:.2e} {:.4f}\n", p.lr, p.loss);
//   optim::AdamW optimizer(nn::named_parameters(model), {.lr = curve.steepest()});
//
// It restores bit for bit: weights, buffers, generators and mode of the model, state and rate of
// the optimizer, and the loader's position. It clears the gradients, and does not restore the state
// of the loss function (a generator, counters). In mid-training it finds the rates that suit the
// model at that point; a training::Learner that steps in backward must not be in the middle of a
// step.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "tern/data/loading/loader.h"
#include "tern/nn/module_ref.h"
#include "tern/optim/optimizer.h"

namespace tern::training {

struct RateFinderOptions {
  /// Rates of the optimizer's first group; the rates of other groups keep their ratio to it.
  double lowest = 1e-7, highest = 10;
  int64_t steps = 100;      ///< number of steps from the lowest to the highest rate; at least 2
  double smoothing = 0.98;  ///< decay of the mean of the losses (bias-corrected)
  double diverged = 4;      ///< stops when that mean exceeds its smallest value by this factor
  double clip = 0;          ///< as LearnerOptions::clip
};

/// A step: its learning rate, and the smoothed loss before it.
struct RatePoint {
  double lr = 0, loss = 0;
};

struct RateCurve {
  std::vector<RatePoint> points;  ///< in the order of the rates
  /// The loss grew too large, or a value was infinite or NaN; that last point is left out.
  bool diverged = false;

  /// The rate at which the loss falls most steeply over the logarithm of the rate, before its
  /// smallest value: a good rate. Error if the loss never falls: then start at a lower rate.
  double steepest() const;
  /// A tenth of the rate with the smallest loss: a more cautious choice.
  double minimum_by_10() const;
};

namespace detail {
/// `loss` returns the loss of the next batch, and rewind() returns to the first batch.
RateCurve find_rate(const nn::ModuleRef& model, optim::Optimizer& optimizer,
                    const std::function<Tensor()>& loss, const std::function<void()>& rewind,
                    const RateFinderOptions& options);
}  // namespace detail

/// Finds the curve on batches of the loader, over several of its epochs if necessary. Error if an
/// option is invalid, or if the first step already meets a value that is not finite.
/// REQUIRES: the optimizer has the model's parameters, and its first group has a rate above 0.
template <class B, class Loss>
RateCurve find_rate(const nn::ModuleRef& model, optim::Optimizer& optimizer,
                    datasets::Loader<B>& loader, Loss&& loss,
                    const RateFinderOptions& options = {}) {
  static_assert(std::is_invocable_r_v<Tensor, Loss&, const B&>,
                "find_rate: loss must be callable as Tensor loss(const B& batch)");
  const datasets::LoaderPosition place = loader.position();
  const auto next_loss = [&]() -> Tensor {
    std::optional<B> batch = loader.next();
    if (!batch) batch = loader.next();
    check(batch.has_value(), "find_rate: the loader has no batches");
    return loss(*batch);
  };
  const auto rewind = [&] { loader.seek(place); };
  return detail::find_rate(model, optimizer, next_loss, rewind, options);
}

}  // namespace tern::training
