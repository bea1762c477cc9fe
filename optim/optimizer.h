// Optimizers: they change parameters by their gradients. Definitions, defaults and names of the
// state are torch.optim's.
//
//   optim::AdamW optimizer(nn::named_parameters(model), {.lr = 1e-3});
//   for (...) {
//     Tensor loss = ...;
//     loss.backward();
//     optimizer.step();
//     optimizer.zero_grad();
//   }
//
// A step passes over all parameters once, in one parallel region; its results do not depend on
// the number of threads. Parameters without a gradient are left alone. A step that cannot be taken
// (no memory for the state, a model converted since) is an Error and changes nothing: neither the
// parameters nor their state nor the steps counted.
//
// An optimizer of your own is a struct of its settings with update(), the arithmetic on a piece of
// one parameter; groups, schedules, files, threads and steps inside backward come with OptimizerOf:
//
//   struct Lion {  // Chen et al. 2023, algorithm 2
//     double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
//     static constexpr const char* name = "Lion";
//     static constexpr std::array state_names = {"exp_avg"};
//
//     template <class T>
//     void update(const optim::Piece<T>& p) const {
//       for (int64_t i = 0; i < p.count; ++i) {
//         T m = p.state[0][i], g = p.gradient[i], c = T(beta1) * m + T(1 - beta1) * g;
//         T sign = T(c > 0) - T(c < 0);
//         p.parameter[i] -= T(p.lr) * (sign + T(p.weight_decay) * p.parameter[i]);
//         p.state[0][i] = T(beta2) * m + T(1 - beta2) * g;
//       }
//     }
//   };
//   optim::OptimizerOf<Lion> optimizer(nn::named_parameters(model), {.lr = 3e-4});
//
// AdamW and the others here are so; tern::simd (core/base/simd.h) makes the loop vector code.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "tern/core/io/state.h"

namespace tern::optim {

/// Tensors that an optimizer may keep for each parameter.
constexpr size_t kMaxStates = 4;

/// A stretch of one parameter with its gradient and its state: contiguous, without overlap.
template <class T>
struct Piece {
  T* parameter;
  const T* gradient;
  std::array<T*, kMaxStates>
      state;  ///< as many as the optimizer has names; 0 before the first step
  int64_t count;
  double lr, weight_decay;  ///< now, and of this parameter's group
  int64_t step;             ///< of this parameter, from 1
};

/// Parameters that share settings; what is not set here is as in the optimizer's options.
struct ParameterGroup {
  NamedTensors parameters;
  std::optional<double> lr = {}, weight_decay = {};
};

/// One group or several. Tensors without names (nn::parameters) are called 0, 1, ...
struct ParameterGroups {
  std::vector<ParameterGroup> list;
  ParameterGroups(NamedTensors parameters) : list{{std::move(parameters)}} {}       // NOLINT
  ParameterGroups(const std::vector<Tensor>& parameters);                           // NOLINT
  ParameterGroups(std::vector<ParameterGroup> groups) : list(std::move(groups)) {}  // NOLINT
};

/// Two groups: `weight_decay` for matrices and larger, none for biases and the weights of norms
/// (up to one axis).
ParameterGroups decay_groups(const NamedTensors& parameters, double weight_decay);

/// What all optimizers have in common. It holds handles: the parameters must not be replaced by
/// others (nn::to) while it lives.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Changes every parameter that has a gradient. An Error, and no change, also if the backward
  /// pass of these gradients reached an nn::Parameter that nobody knows: one that a module's
  /// `fields` forgets, which would keep its first values and be in no file.
  void step();
  /// Clears the gradients.
  void zero_grad();

  /// Steps each parameter as soon as its gradient is complete, and frees the gradient at once, so
  /// that never all of them are in memory. Same bits as step() afterwards.
  ///
  ///   backward(loss, {.on_ready = optimizer.step_in_backward()});
  ///   optimizer.step();  // what was left, and the end of this step
  ///
  /// What needs all gradients at a time cannot be had with it and is refused by name:
  /// clip_grad_norm, check_finite_gradients, and gradients of several backward passes, unless all
  /// but the last are ordinary ones. A pass that throws leaves some parameters stepped, others not.
  /// REQUIRES: the optimizer outlives what it returns.
  std::function<void(const Tensor& leaf)> step_in_backward();

  /// Makes the state of all parameters now rather than in their first steps: before the first
  /// forward pass it lies where no activations will leave gaps.
  void allocate_state();

  /// All learning rates are those of the groups times this factor: what a schedule sets.
  void set_lr_factor(double factor) { lr_factor_ = factor; }
  /// The learning rate now, of a group.
  double lr(size_t group = 0) const;
  double weight_decay(size_t group = 0) const { return groups_.at(group).weight_decay; }
  size_t num_groups() const { return groups_.size(); }

  /// The parameters of all groups, in order.
  NamedTensors parameters() const;

  /// State under "parameter.state" (exp_avg, momentum_buffer, ...) and the steps each parameter has
  /// taken under "parameter.step" (i64); shares its elements with the optimizer. With the
  /// parameters and the schedule's step it is what an exact continuation needs.
  NamedTensors state_dict() const;
  /// Takes such a state over; an Error that lists what does not fit otherwise, and no change.
  void load_state_dict(const NamedTensors& state);

 protected:
  /// What OptimizerOf reads off a rule.
  struct Traits {
    const char* name;
    double lr, weight_decay;
    std::vector<const char*> state_names;
    bool whole_parameters;
  };
  Optimizer(const ParameterGroups& groups, Traits traits);

  virtual void update(const Piece<float>& piece) const = 0;
  virtual void update(const Piece<double>& piece) const = 0;

 private:
  struct Settings {
    double lr, weight_decay;
  };
  struct Entry {
    std::string name;
    Tensor parameter;
    size_t group;
    int64_t steps = 0;
    std::vector<Tensor> state = {};
  };
  struct Update;
  void add(const std::string& name, const Tensor& parameter, size_t group);
  void check_distinct() const;
  std::vector<Tensor> fresh_state(const Tensor& parameter) const;
  Update prepare(size_t entry);
  void apply(std::vector<Update> updates);
  void step_leaf(const Tensor& leaf);
  void end_step();

  Traits traits_;
  std::vector<Settings> groups_;
  std::vector<Entry> entries_;
  std::unordered_map<const void*, size_t> entry_of_;  // by the tensor
  double lr_factor_ = 1;
};

/// The settings of an optimizer with its arithmetic. Beside what is required here it may have
///   double weight_decay;                            0 where there is none
///   static constexpr const char* name;              for errors
///   static constexpr std::array state_names;        of the tensors kept for each parameter, or
///   std::vector<const char*> state_names() const;   if they depend on the settings; none if
///   neither void validate() const;                          throws what is wrong with the settings
///   static constexpr bool whole_parameters = true;  a piece is always all of a parameter (for
///   norms
///                                                   of it, as in LAMB); a large one is one
///                                                   thread's
/// update() runs in several threads at a time and must not throw.
template <class R>
concept Rule = std::copyable<R> &&
    requires(const R& rule, const Piece<float>& floats, const Piece<double>& doubles) {
  { rule.lr } -> std::convertible_to<double>;
  rule.update(floats);
  rule.update(doubles);
};

/// The optimizer that a rule makes.
template <Rule R>
class OptimizerOf final : public Optimizer {
 public:
  explicit OptimizerOf(const ParameterGroups& groups, const R& rule = {})
      : Optimizer(groups, traits(rule)), rule_(rule) {}
  const R& rule() const { return rule_; }

 private:
  static Traits traits(const R& rule) {
    Traits t{"optimizer", rule.lr, 0, {}, false};
    if constexpr (requires { R::name; }) t.name = R::name;
    if constexpr (requires { rule.weight_decay; }) t.weight_decay = rule.weight_decay;
    if constexpr (requires { rule.state_names(); })
      t.state_names = rule.state_names();
    else if constexpr (requires { R::state_names; })
      t.state_names.assign(R::state_names.begin(), R::state_names.end());
    if constexpr (requires { R::whole_parameters; }) t.whole_parameters = R::whole_parameters;
    if constexpr (requires { rule.validate(); }) rule.validate();
    return t;
  }
  void update(const Piece<float>& piece) const override { rule_.update(piece); }
  void update(const Piece<double>& piece) const override { rule_.update(piece); }
  R rule_;
};

/// Adam with the weight decay applied to the parameters themselves (Loshchilov & Hutter 2019).
struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
  static constexpr const char* name = "AdamW";
  static constexpr std::array state_names = {"exp_avg", "exp_avg_sq"};
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using AdamW = OptimizerOf<AdamWOptions>;

/// Kingma & Ba 2015; weight decay is added to the gradient.
struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  static constexpr const char* name = "Adam";
  static constexpr std::array state_names = {"exp_avg", "exp_avg_sq"};
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Adam = OptimizerOf<AdamOptions>;

struct SgdOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;  ///< needs momentum, and no dampening
  static constexpr const char* name = "Sgd";
  std::vector<const char*> state_names() const;  ///< momentum_buffer, if there is momentum
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Sgd = OptimizerOf<SgdOptions>;

struct RmsPropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;  ///< divides by the deviation from the mean gradient (Graves 2013)
  static constexpr const char* name = "RmsProp";
  std::vector<const char*> state_names() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using RmsProp = OptimizerOf<RmsPropOptions>;

/// Zeiler 2012.
struct AdadeltaOptions {
  double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;
  static constexpr const char* name = "Adadelta";
  static constexpr std::array state_names = {"square_avg", "acc_delta"};
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Adadelta = OptimizerOf<AdadeltaOptions>;

extern template class OptimizerOf<AdamWOptions>;
extern template class OptimizerOf<AdamOptions>;
extern template class OptimizerOf<SgdOptions>;
extern template class OptimizerOf<RmsPropOptions>;
extern template class OptimizerOf<AdadeltaOptions>;

}  // namespace tern::optim
