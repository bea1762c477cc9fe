// A model, its optimizer, and all of a training step but the forward pass. A Learner knows neither
// data nor files nor terminal. The loop around it may be yours:
//
//   training::Learner learner(model, optimizer, {.schedule = optim::cosine(...), .clip = 1});
//   for (Batch& b : loader) {
//     learner.backward(cross_entropy(model(b.images), b.labels));
//     learner.step();
//   }
//
// or that of loop.h.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/nn/eval_scope.h"
#include "tern/nn/module_ref.h"
#include "tern/optim/ema.h"
#include "tern/optim/lookahead.h"
#include "tern/optim/optimizer.h"
#include "tern/optim/schedule.h"

namespace tern::dist {
class World;
}

namespace tern::training {

class Checkpoint;

/// The training cannot go on: a loss, a gradient or a weight is infinite or NaN. It is thrown
/// before weights are changed by it, and before a file is written with it.
class Diverged : public Error {
 public:
  using Error::Error;
};

struct LearnerOptions {
  optim::Schedule schedule = {};  ///< factor of the learning rates by steps taken; none: 1
  /// Beside the schedule: a factor that falls when the metric given to report() stops improving.
  std::optional<optim::PlateauOptions> plateau = {};
  double clip = 0;  ///< largest norm of all gradients together; 0: no bound
  double ema = 0;   ///< decay of averaged weights, with a warm-up; 0: none are kept
  /// Slow weights from which the training goes on every few steps.
  std::optional<optim::LookaheadOptions> lookahead = {};
  bool check_graph = true;  ///< check before the first step: optim/training_graph.h
  /// The optimizer's state is made with the learner, before activations can leave gaps for it.
  bool allocate_state = true;
  /// backward() takes the step of each parameter as soon as its gradient is complete, and frees
  /// that: never all gradients are there (Optimizer::step_in_backward). The same bits. It goes
  /// neither with `clip` nor with several backward passes a step, which need all gradients at a
  /// time: an Error.
  bool step_in_backward = false;
  /// Allows training a model that is wholly in evaluation mode. By default that is an Error, since
  /// a call of nn::set_training(model) is probably missing. Parts of a model may be in evaluation
  /// mode in any case, and so may everything that is frozen (batch norm).
  bool allow_evaluation_mode = false;
};

/// Model and optimizer must outlive it and stay in their places.
class Learner {
 public:
  Learner(nn::ModuleRef model, optim::Optimizer& optimizer, LearnerOptions options = {});
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  /// Adds the gradient of share * loss to the parameters' and gives the value of that. Several of
  /// these before a step accumulate batches. Throws Diverged if it is not finite. The first one
  /// compares what the loss depends on with the model's and the optimizer's parameters. With
  /// options.step_in_backward the parameters have been stepped afterwards; one whose gradient is
  /// not finite is left as it was, with Diverged, and others with it or not.
  double backward(const Tensor& loss, double share = 1);
  /// What backward() checks before it runs: the loss is one finite number (Diverged), and at the
  /// first time what it depends on. For a pass that the caller runs (dist/gradient_sum.h).
  void check_loss(const Tensor& loss);
  /// Error if the model is wholly in evaluation mode (LearnerOptions::allow_evaluation_mode). The
  /// first backward() calls it, and Loop does at the start of each epoch.
  void check_mode() const;
  /// Checks that the gradients are finite (Diverged names the first parameter whose is not), clips,
  /// sets the learning rate, takes the step, clears the gradients, looks ahead, averages. Nothing
  /// has changed where it throws Diverged.
  void step();
  /// For several learners that train together, as in a GAN: from now on backward() adds gradients
  /// only to this learner's parameters. The gradients of `others`, parameters of other learners
  /// that the loss may depend on, stay as they were. Diverged messages contain `name`. Loop calls
  /// this.
  void train_beside(const std::string& name, NamedTensors others);
  /// The norm of all gradients together in the last step, before they were clipped; NaN before the
  /// first.
  double grad_norm() const { return grad_norm_; }
  /// From now on `hook` sees the finite gradient of each parameter, before it is clipped and the
  /// step is taken; an empty one sees none.
  using GradientHook = std::function<void(const std::string& parameter, const Tensor& gradient)>;
  /// Gives the one before.
  GradientHook on_gradient(GradientHook hook) {
    return std::exchange(on_gradient_, std::move(hook));
  }
  /// The metric of an epoch, for LearnerOptions::plateau; without that nothing happens. Loop
  /// reports the metric of LoopOptions::best.
  void report(double metric);
  /// Drops the gradients, where a step is given up.
  void clear_gradients() {
    optimizer_.zero_grad();
    stepped_ = false;
  }

  /// Splits the optimizer's states over the ranks of the world (optim/shards.h): each rank keeps
  /// and computes its share, and step() sends the updated weights to all. All ranks call it before
  /// the first step, and then step() together with the same gradients (dist/gradient_sum.h). The
  /// bits are those without it. LearnerOptions::allocate_state makes all states before this drops
  /// most of them: turn it off where memory is short, since this allocates its share.
  /// The part "optimizer" of a checkpoint is whole on rank 0; all ranks take part in
  /// Checkpoint::state(). The file is the same with and without sharding.
  void shard_optimizer(dist::World& world);
  // ---- Ranks that train apart for a while (Parallel::local_steps) ----
  /// Counts a step for which this rank has no data. Nothing else changes.
  void skip_step();
  /// Weights, buffers, optimizer's state and averages: what differs between such ranks. All ranks
  /// have the same names and shapes, whatever parameters have been stepped.
  NamedTensors own_state() const;
  void load_own_state(const NamedTensors& state);

  int64_t steps() const { return steps_; }  ///< that have been taken
  double lr() const { return optimizer_.lr(); }
  const nn::ModuleRef& model() const { return model_; }
  const NamedTensors& parameters() const { return parameters_; }  ///< the optimizer's
  const LearnerOptions& options() const { return options_; }

  /// The weights that count: the averages, or without them the model's. They share elements with
  /// the learner.
  NamedTensors weights() const;
  /// What of weights, buffers, averages and the optimizer's state is infinite or NaN: the first by
  /// name and the step after which, as a sentence; empty if all is finite.
  std::string find_non_finite() const;
  /// Throws that as Diverged.
  void check_finite_state() const;
  /// Writes them as a safetensors file, atomically; `begun` as in save_safetensors(). Diverged, and
  /// no file, if one is not finite.
  void save_weights(const std::string& path,
                    const std::map<std::string, std::string>& metadata = {},
                    const std::function<void()>& begun = {}) const;

  /// While it lives the model has the weights that count, and is in evaluation; then all is as
  /// before, whatever was thrown.
  class Evaluation {
   public:
    explicit Evaluation(Learner& learner);

   private:
    nn::EvalScope mode_;
    std::optional<optim::EmaScope> averaged_;
  };

  /// Adds model, generators, optimizer, averages, slow weights, plateau and the number of steps as
  /// parts called PREFIXmodel, PREFIXoptimizer, ... Saving throws Diverged if one of them is not
  /// finite.
  ///
  /// Also adds settings. Loading restores which parameters are frozen, which modules are in
  /// evaluation mode, and the optimizer's settings (checkpoint.h): to change one of these, do it
  /// after loading. An optimizer with another rule or other groups is an IoError. The schedule,
  /// clip, the decay of averages and the plateau stay those of LearnerOptions. Checkpoint::notes()
  /// lists what differs. Other settings, such as a rate of dropout, are not stored: compare them by
  /// Checkpoint::expect().
  void add_to(Checkpoint& checkpoint, const std::string& prefix = "");

  /// The generators of the model, as they are; and back. For running a step again.
  void save_generators(std::vector<Rng>& to) const;
  void load_generators(const std::vector<Rng>& from) const;

 private:
  optim::NamedNumbers recipe() const;
  void add_settings_to(Checkpoint& checkpoint, const std::string& prefix);
  double run_backward(const Tensor& part);
  void check_gradients();
  std::vector<double> squares_of(const NamedTensors& parameters) const;
  void show_gradients(const NamedTensors& parameters) const;
  void check_finite(const NamedTensors& parameters) const;
  void set_rate(int64_t step);
  void step_parameter(const Tensor& leaf);
  NamedTensors optimizer_state() const;

  nn::ModuleRef model_;
  optim::Optimizer& optimizer_;
  LearnerOptions options_;
  std::optional<optim::Ema> ema_;
  std::optional<optim::Lookahead> lookahead_;
  std::optional<optim::Plateau> plateau_;
  NamedTensors parameters_;
  std::string of_;                // " of critic" if there are other learners, else ""
  NamedTensors others_;           // the other learners' parameters
  dist::World* world_ = nullptr;  // of a sharded optimizer,
  std::vector<int64_t> owners_;   // by parameter
  std::vector<Rng*> generators_;
  std::function<void(const Tensor& leaf)> steps_leaf_;  // of the optimizer, where in backward
  GradientHook on_gradient_;
  double grad_norm_ = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> squares_;  // sums of the gradients', by parameter; not kept with a bound
  int64_t steps_ = 0;
  bool graph_checked_ = false, stepped_ = false;
};

}  // namespace tern::training
