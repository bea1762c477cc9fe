// An outer step: averages of differences, a step of SGD, averages of buffers; and the states of all
// ranks in a checkpoint.
#include "tern/train/detail/outer_steps.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/dist/owned_tensors.h"
#include "tern/nn/module.h"
#include "tern/train/detail/tensor_names.h"

namespace tern::training {
namespace {

// Copies of the parameters, which the outer optimizer updates.
NamedTensors outer_parameters(const NamedTensors& parameters) {
  NamedTensors out;
  for (const auto& [name, p] : parameters) {
    out.emplace_back(name, p.detach().clone());
    out.back().second.set_requires_grad(true);
  }
  return out;
}

// Sets float tensors to the mean over the ranks, and integer tensors to those of the last rank.
void unite(dist::World& world, const std::string& what, const NamedTensors& tensors,
           const std::vector<double>& weights) {
  std::vector<Tensor> floats;
  std::vector<dist::OwnedTensor> integers;
  for (const auto& [name, t] : tensors)
    if (is_float(t.dtype()))
      floats.push_back(t.detach());
    else
      integers.push_back({world.size() - 1, t.detach()});
  dist::average(world, what, floats, weights);
  dist::send_to_all(world, what, integers);
}

}  // namespace

OuterSteps::OuterSteps(const Parallel& options, Learner& learner)
    : world_(*options.world),
      learner_(learner),
      local_steps_(options.local_steps),
      parameters_(learner.parameters()),
      start_(outer_parameters(parameters_)),
      sgd_(start_, {.lr = options.outer_lr,
                    .momentum = options.outer_momentum,
                    .nesterov = options.outer_momentum > 0}),
      weights_(static_cast<size_t>(world_.size())) {}

void OuterSteps::begin() {
  if (std::exchange(begun_, true)) return;
  NoGradGuard no_grad;
  for (size_t i = 0; i < parameters_.size(); ++i)
    copy_(start_[i].second, parameters_[i].second.detach());
}

void OuterSteps::count(const std::vector<double>& weights) {
  for (size_t r = 0; r < weights_.size(); ++r) weights_[r] += weights[r];
}

void OuterSteps::take(bool end_of_epoch) {
  NoGradGuard no_grad;
  std::vector<Tensor> differences;
  for (size_t i = 0; i < parameters_.size(); ++i)
    differences.push_back(start_[i].second - parameters_[i].second);
  dist::average(world_, "the differences of the weights", differences, weights_);
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Tensor difference = std::exchange(differences[i], {});
    if (parameters_[i].second.requires_grad())
      start_[i].second.set_grad(std::move(difference));
    else
      add_(start_[i].second, difference, -1);
  }
  sgd_.step({.allow_no_gradients = true});
  sgd_.zero_grad();
  for (size_t i = 0; i < parameters_.size(); ++i)
    copy_(parameters_[i].second.detach(), start_[i].second);
  unite(world_, "the buffers", nn::named_buffers(learner_.model()), weights_);
  if (end_of_epoch && learner_.options().ema > 0)
    unite(world_, "the averaged weights", learner_.weights(),
          std::vector<double>(weights_.size(), 1));
  std::fill(weights_.begin(), weights_.end(), 0);
  begun_ = false;
}

NamedTensors OuterSteps::state_dict() {
  learner_.check_finite_state();
  NamedTensors all = {{"ranks", scalar(world_.size(), DType::i64)},
                      {"steps", scalar(local_steps_, DType::i64)},
                      {"trained_on", tensor(weights_, {world_.size()})}};
  const auto add = [&](const NamedTensors& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  add(with_prefix("start.", start_));
  add(with_prefix("outer.", sgd_.state_dict()));
  std::vector<dist::OwnedTensor> sent;
  const NamedTensors own = learner_.own_state();
  for (int64_t r = 1; r < world_.size(); ++r) {
    NamedTensors of_rank = with_prefix(fmt::format("rank{}.", r), own);
    for (auto& [name, t] : of_rank) {
      if (world_.first()) t = zeros(t.shape(), t.dtype());
      if (world_.first() || world_.rank() == r) sent.push_back({r, t});
    }
    if (world_.first()) add(of_rank);
  }
  dist::send_to_first(world_, "the state of each rank", sent);
  return all;
}

void OuterSteps::load_state_dict(const NamedTensors& state) {
  NamedTensors targets = {{"ranks", zeros({}, DType::i64)}, {"steps", zeros({}, DType::i64)}};
  load_state("local steps", targets, state, {.strict = false});
  const auto ranks = targets[0].second.item<int64_t>(), steps = targets[1].second.item<int64_t>();
  check(ranks == world_.size() && steps == local_steps_,
        "it has {} ranks with {} local steps, each rank with an optimizer of its own; resume it "
        "with {} ranks and {} local steps, not with {} and {}",
        ranks, steps, ranks, steps, world_.size(), local_steps_);
  targets = {{"", zeros({ranks}, DType::f64)}};
  load_state("trained_on", targets, below("trained_on", state));
  load_state("start", start_, below("start.", state));
  const auto weights = targets[0].second.to_vector<double>();
  for (const double w : weights)
    check(w >= 0 && std::isfinite(w), "a rank trained on {} in this round", w);
  sgd_.load_state_dict(below("outer.", state));
  weights_ = weights;
  begun_ = std::ranges::any_of(weights, [](double w) { return w > 0; });
  if (!world_.first()) learner_.load_own_state(below(fmt::format("rank{}.", world_.rank()), state));
}

}  // namespace tern::training
