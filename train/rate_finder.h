// Finds a learning rate before a training (Smith 2015, "Cyclical Learning Rates for Training Neural
// Networks", section 3.3; fastai's lr_find). It takes some steps with rates that grow
// exponentially, until the loss diverges. A good rate is where the loss falls fastest, well below
// the rate of the least loss:
//
//   const training::RateCurve curve = training::find_rate(
//       model, optimizer, loader, [&](const Batch& b) { return cross_entropy(model(b.x), b.y); });
//   for (const training::RatePoint& p : curve.points) fmt::print("{:.2e} {:.4f}\n", p.lr, p.loss);
//   optim::AdamW optimizer(nn::named_parameters(model), {.lr = curve.steepest()});
//
// It restores everything bit for bit: weights, buffers, generators and mode of the model, state and
// rate of the optimizer, and the loader's place. Gradients are cleared, and state of the loss's own
// (a generator, counters) has moved on. In mid-training it finds the rates that suit the model
// then; a training::Learner that steps in backward must not be taking a step.
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
  /// Rates of the optimizer's first group; those of others keep their proportion to it.
  double lowest = 1e-7, highest = 10;
  int64_t steps = 100;      ///< from one to the other; at least 2
  double smoothing = 0.98;  ///< decay of the mean of the losses (bias-corrected)
  double diverged = 4;      ///< stops when that mean is so many times its least value
  double clip = 0;          ///< largest norm of all gradients together, as LearnerOptions
};

/// A step: its rate, and the smoothed loss before it was taken.
struct RatePoint {
  double lr = 0, loss = 0;
};

struct RateCurve {
  std::vector<RatePoint> points;  ///< in the order of the rates
  /// The loss grew too large, or something was infinite or NaN; the point where it was is left out.
  bool diverged = false;

  /// The rate at which the loss falls most steeply over the logarithm of the rate, up to its least
  /// value: a good rate. Error if the loss never falls: then start at a lower rate.
  double steepest() const;
  /// A tenth of the rate at which the loss is least: a more careful choice.
  double minimum_by_10() const;
};

namespace detail {
/// `loss` gives that of the next batch, and rewind() goes back to the first.
RateCurve find_rate(const nn::ModuleRef& model, optim::Optimizer& optimizer,
                    const std::function<Tensor()>& loss, const std::function<void()>& rewind,
                    const RateFinderOptions& options);
}  // namespace detail

/// REQUIRES: the optimizer is the model's, and its first group has a rate above 0. Error if an
/// option cannot be, or if the first step already finds what is not finite. Epochs of the loader
/// that end are followed by the next.
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
