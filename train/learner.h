// A model, its optimizer, and all of a training step but the forward pass. A Learner does not know
// about data, files or a terminal. Write the loop around it yourself:
//
//   training::Learner learner(model, optimizer, {.schedule = optim::cosine(...), .clip = 1});
//   for (Batch& b : loader) {
//     learner.backward(cross_entropy(model(b.images), b.labels));
//     learner.step();
//   }
//
// or use loop.h.
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

/// The training cannot continue: a loss, a gradient or a weight is infinite or NaN. It is thrown
/// before such a value changes weights or reaches a file.
class Diverged : public Error {
 public:
  using Error::Error;
};

struct LearnerOptions {
  optim::Schedule schedule = {};  ///< factor of the learning rates by steps taken; none: 1
  /// A further factor, which falls when the metric given to report() stops improving.
  std::optional<optim::PlateauOptions> plateau = {};
  double clip = 0;  ///< upper bound of the norm of all gradients together; 0: no bound
  double ema = 0;   ///< decay of averaged weights, with a warm-up; 0: no averages. They start at
                    ///< the weights before the first step, as do slow weights
  /// Slow weights, from which the training continues every few steps.
  std::optional<optim::LookaheadOptions> lookahead = {};
  /// Before the first step: runs check_training_graph() (optim/training_graph.h), and refuses a
  /// model in which a layer is a copy of another one and has the same generator, since both would
  /// drop the same elements.
  bool check_graph = true;
  /// Allocates the optimizer's state with the learner, so that it leaves no gaps between
  /// activations.
  bool allocate_state = true;
  /// backward() steps each parameter as soon as its gradient is complete and frees the gradient, so
  /// the gradients are never all in memory (Optimizer::step_in_backward). It gives the same bits.
  /// It is an Error together with `clip` or with several backward passes per step, which need all
  /// gradients at once.
  bool step_in_backward = false;
  /// Allows training a model that is wholly in evaluation mode. By default that is an Error, since
  /// a call of nn::set_training(model) is probably missing. Parts of a model may be in evaluation
  /// mode in any case, and so may all frozen modules (batch norm).
  bool allow_evaluation_mode = false;
};

/// Model and optimizer must outlive it and keep their addresses.
class Learner {
 public:
  Learner(nn::ModuleRef model, optim::Optimizer& optimizer, LearnerOptions options = {});
  Learner(const Learner&) = delete;
  Learner& operator=(const Learner&) = delete;

  /// Adds the gradient of share * loss to the gradients of the parameters and returns share * loss.
  /// Several calls before a step accumulate batches. Throws Diverged if the value is not finite.
  /// The first call checks that the loss depends on the model's and the optimizer's parameters.
  /// With options.step_in_backward it also steps the parameters. If a gradient is then not finite,
  /// it throws Diverged: that parameter is unchanged, others may have been stepped or not.
  double backward(const Tensor& loss, double share = 1);
  /// The checks of backward() before its pass: that the loss is one finite number (Diverged), and
  /// in the first call the parameters that it depends on. For a caller that runs the pass itself
  /// (dist/gradient_sum.h).
  void check_loss(const Tensor& loss);
  /// Error if the model is wholly in evaluation mode (LearnerOptions::allow_evaluation_mode). The
  /// first backward() calls it, and a Loop calls it at the start of each epoch.
  void check_mode() const;
  /// Error if the optimizer lacks a parameter of the model that requires a gradient, such as one
  /// that was unfrozen, added or replaced after the first backward(), which checks this itself. A
  /// Loop calls it at the start of each epoch. Without LearnerOptions::check_graph it does nothing.
  void check_optimized() const;
  /// Checks that the gradients are finite (Diverged names the first parameter whose gradient is
  /// not), clips them, sets the learning rate, takes the step, clears the gradients, and updates
  /// the slow and averaged weights. If it throws Diverged, nothing has changed.
  void step();
  /// For several learners that train together, as in a GAN: from now on backward() adds gradients
  /// only to this learner's parameters. The loss may depend on `others`, parameters of other
  /// learners, whose gradients stay unchanged. Diverged messages contain `name`. Loop calls this.
  void train_beside(const std::string& name, NamedTensors others);
  /// The norm of all gradients together in the last step, before clipping; NaN before the first.
  double grad_norm() const { return grad_norm_; }
  /// Called with the finite gradient of each parameter, before clipping and the step.
  using GradientHook = std::function<void(const std::string& parameter, const Tensor& gradient)>;
  /// Sets the hook (empty: none) and returns the previous one.
  GradientHook on_gradient(GradientHook hook) {
    return std::exchange(on_gradient_, std::move(hook));
  }
  /// Reports the metric of an epoch to LearnerOptions::plateau; without one it does nothing. A Loop
  /// reports the metric of LoopOptions::best.
  void report(double metric);
  /// Drops the gradients of a step that will not be taken.
  void clear_gradients() {
    optimizer_.zero_grad();
    stepped_ = false;
  }

  /// Splits the optimizer's states over the ranks of the world (optim/shards.h): each rank keeps
  /// its share of the states and updates those parameters, and step() sends the updated weights to
  /// all. All ranks call it before the first step, and then call step() together with the same
  /// gradients (dist/gradient_sum.h). The bits are the same as without it. It allocates this rank's
  /// share, so turn LearnerOptions::allocate_state off if memory is short: that allocates all
  /// states first. The part "optimizer" of a checkpoint is whole on rank 0; all ranks take part in
  /// Checkpoint::state(). The file is the same with and without sharding.
  void shard_optimizer(dist::World& world);
  // ---- Ranks that train apart for several steps (Parallel::local_steps) ----
  /// Counts a step for which this rank has no data. Nothing else changes.
  void skip_step();
  /// Weights, buffers, optimizer's state and averages, which differ between such ranks. The names
  /// and shapes are the same on all ranks, even if different parameters have been stepped.
  NamedTensors own_state() const;
  void load_own_state(const NamedTensors& state);

  int64_t steps() const { return steps_; }  ///< number of steps taken
  double lr() const { return optimizer_.lr(); }
  const nn::ModuleRef& model() const { return model_; }
  const NamedTensors& parameters() const { return parameters_; }  ///< the optimizer's
  const LearnerOptions& options() const { return options_; }

  /// The weights to evaluate and save: the averages, or the model's if there are none. They share
  /// elements with the learner.
  NamedTensors weights() const;
  /// Throws Diverged if a tensor among weights, buffers, averages and the optimizer's state is
  /// infinite or NaN. The error names the first one, and the step after which.
  void check_finite_state() const;
  /// Writes weights() as a safetensors file, atomically. If one is not finite, throws Diverged
  /// and writes no file.
  void save_weights(const std::string& path,
                    const std::map<std::string, std::string>& metadata = {}) const;

  /// While it lives, the model has weights() and is in evaluation mode. The destructor restores
  /// weights and mode.
  class Evaluation {
   public:
    explicit Evaluation(Learner& learner);

   private:
    nn::EvalScope mode_;
    std::optional<optim::EmaScope> averaged_;
  };

  /// Adds model, generators, optimizer, averages, slow weights, plateau and the number of steps as
  /// parts called PREFIXmodel, PREFIXoptimizer, ... Saving throws Diverged if a tensor is not
  /// finite.
  ///
  /// Also adds settings. Loading restores which parameters are frozen, which modules are in
  /// evaluation mode, and the optimizer's settings (checkpoint.h): to change one of these, do it
  /// after loading. An optimizer with another rule or other groups is an IoError. The schedule,
  /// clip, the decay of averages and the plateau stay those of LearnerOptions. Checkpoint::notes()
  /// lists the differences. Other settings, such as a dropout rate, are not stored: compare them
  /// with Checkpoint::expect().
  void add_to(Checkpoint& checkpoint, const std::string& prefix = "");

  /// Copies the model's generators, and restores them, to repeat a step.
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
  void begin_step();
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
  dist::World* world_ = nullptr;  // the ranks that share the optimizer's states, if any
  std::vector<int64_t> owners_;   // by parameter: the rank that keeps its state
  std::vector<Rng*> generators_;
  std::function<void(const Tensor& leaf)> steps_leaf_;  // set with step_in_backward
  GradientHook on_gradient_;
  double grad_norm_ = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> squares_;  // by parameter: the sum of squares of its gradient, without clip
  int64_t steps_ = 0;
  bool graph_checked_ = false, stepped_ = false;
};

}  // namespace tern::training
