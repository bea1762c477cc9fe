// Optimizers, which update parameters with their gradients. Definitions, defaults and the names of
// the state are those of torch.optim; for LAMB and Lion, those of timm.optim.
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
// the number of threads. Parameters without a gradient stay unchanged. A step that cannot be taken
// (no memory for the state, a model converted since) is an Error and changes nothing: neither the
// parameters nor their state nor the step counts.
//
// To write your own optimizer, make a struct of its settings with update(), the arithmetic on a
// piece of one parameter. OptimizerOf adds groups, schedules, files, threads and steps inside
// backward:
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
// Groups of parameters may differ in learning rate and weight decay, or in every setting:
//
//   optim::AdamW optimizer(std::vector<optim::AdamW::Group>{
//       {.parameters = slow, .options = {.lr = 1e-4, .beta1 = 0.8}}, {.parameters = others}});
//
// AdamW and the others are written this way (adam.h, sgd.h, rmsprop.h, adam_family.h, lion.h,
// adafactor.h, muon.h). Their loops run in tern::simd (core/base/simd.h), which vectorizes them.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/io/state.h"

namespace tern::optim {

/// The most state tensors that an optimizer may keep for a parameter.
constexpr size_t kMaxStates = 4;

/// A stretch of one parameter with its gradient and its state: contiguous, without overlap.
template <class T>
struct Piece {
  T* parameter;
  const T* gradient;
  std::array<T*, kMaxStates>
      state;  ///< one per state name of the optimizer; filled with 0 before the first step
  int64_t count;
  double lr, weight_decay;       ///< the current ones of this parameter's group
  int64_t step;                  ///< the number of this parameter's step, from 1
  const T* direction = nullptr;  ///< the result of the rule's direction(), if it has one
  const Shape* shape = nullptr;  ///< shape of the whole parameter
};

/// A tensor that an optimizer keeps for a parameter.
struct StateTensor {
  const char* name;
  Shape shape;
  int bits = 32;              ///< or 8, if it has the shape of the parameter, which must be large
  bool non_negative = false;  ///< an 8-bit state stores no sign
};

/// Parameters that share settings. A setting without a value comes from the optimizer's options.
struct ParameterGroup {
  NamedTensors parameters;
  std::optional<double> lr = {}, weight_decay = {};
};

/// Settings by name, as numbers: a bool is 0 or 1, an optional without a value is NaN.
using NamedNumbers = std::vector<std::pair<std::string, double>>;

/// One group or several. The optimizer refuses a group without parameters (Error). Tensors without
/// names (nn::parameters) are called 0, 1, ...
struct ParameterGroups {
  std::vector<ParameterGroup> list;
  ParameterGroups(NamedTensors parameters) : list{{std::move(parameters)}} {}  // NOLINT
  ParameterGroups(const std::vector<Tensor>& parameters);                      // NOLINT
  ParameterGroups(std::initializer_list<Tensor> parameters)                    // NOLINT
      : ParameterGroups(std::vector<Tensor>(parameters)) {}
  ParameterGroups(std::vector<ParameterGroup> groups) : list(std::move(groups)) {}  // NOLINT
};

/// Two groups: `weight_decay` for parameters of two or more axes (matrices), no decay for the
/// others (biases, norms). Empty groups are left out.
ParameterGroups decay_groups(const NamedTensors& parameters, double weight_decay);

/// Puts the biases of norms into groups of their own, with the learning rate multiplied by `factor`
/// and the weight decay divided by it, so that they decay as fast as before. A bias belongs to a
/// norm if it is called "bias" or "NAME.bias" and the weight beside it has one axis. If there is no
/// such weight, NAME must contain "norm" or "bn": else the bias may be that of a tied matrix.
/// Groups without an lr or weight decay use `lr` and `weight_decay`.
ParameterGroups scale_norm_biases(const ParameterGroups& groups, double factor, double lr,
                                  double weight_decay);

struct StepOptions {
  /// A step in which no parameter has a gradient does nothing, instead of being an Error.
  bool allow_no_gradients = false;
};

/// The interface of all optimizers. It holds handles of the parameters: do not replace these
/// (nn::to) while the optimizer lives.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient. It is an Error, and nothing changes, if
  ///   - the backward pass reached an nn::Parameter that no module lists (a module's `fields` lacks
  ///     it, or it is a copy): it would never be trained or saved;
  ///   - no parameter has a gradient, and none was stepped inside backward;
  ///   - another optimizer has stepped a parameter with the same gradient, which nothing has
  ///     changed or cleared since.
  void step(const StepOptions& options = {});
  /// Clears the gradients.
  void zero_grad();

  /// Steps each parameter as soon as its gradient is complete and frees that gradient, so the
  /// gradients are never all in memory. Gives the same bits as step() after backward.
  ///
  ///   backward(loss, {.on_ready = optimizer.step_in_backward()});
  ///   optimizer.step();  // steps the remaining parameters and ends this step
  ///
  /// Functions that need all gradients together (clip_grad_norm, check_finite_gradients) throw an
  /// Error. Gradients of several backward passes can be added only if all passes but the last are
  /// ordinary ones. A pass that throws leaves some parameters stepped and others not.
  /// REQUIRES: the optimizer outlives the function returned here.
  std::function<void(const Tensor& leaf)> step_in_backward();

  /// Allocates the state of all parameters that require a gradient now instead of in their first
  /// steps. Called before the first forward pass, it leaves no gaps between activations.
  void allocate_state();

  /// Sets the factor that multiplies the learning rates of all groups. A schedule gives it. Error
  /// if it is negative or not finite.
  void set_lr_factor(double factor);
  double lr_factor() const { return lr_factor_; }
  /// The current learning rate of a group. Groups and parameters count from 0; it is an Error if
  /// there is none of that number, here and below.
  double lr(size_t group = 0) const;
  double weight_decay(size_t group = 0) const { return group_at(group).weight_decay; }
  size_t num_groups() const { return groups_.size(); }
  /// The name of the rule that updates a group: "AdamW".
  virtual const char* rule_name(size_t group = 0) const = 0;
  /// The settings of a group: lr (without the factor), weight_decay, and the settings that the rule
  /// lists (see Rule). Checkpoints store them (train/checkpoint.h).
  NamedNumbers settings(size_t group = 0) const;
  /// Changes some settings: set_settings({{"lr", 1e-4}}). It is an Error, and nothing changes, if
  /// the group has no setting of that name, if the rule refuses a value, or if a value needs a
  /// different state (momentum where there was none).
  void set_settings(const NamedNumbers& values, size_t group = 0);
  /// The names of a group's parameters.
  std::vector<std::string> names_in(size_t group) const;

  /// The parameters of all groups, in order.
  NamedTensors parameters() const;

  /// The state tensors under "parameter.state" (exp_avg, momentum_buffer, ...; an 8-bit state is
  /// u8, with its scales under "parameter.state.scale") and the number of steps of each parameter
  /// under "parameter.step" (i64). The state tensors share their elements with the optimizer. An
  /// exact resume needs this, the parameters and the schedule's step.
  NamedTensors state_dict() const;
  /// Loads the result of state_dict(). If it does not fit, an Error lists why and nothing changes.
  void load_state_dict(const NamedTensors& state);

  // ---- States that are split over processes (shards.h) ----
  /// From now on this process updates only the parameters i of parameters() with own[i], and keeps
  /// only their states. For the others step() only counts the steps: another process updates them,
  /// and the caller fetches the weights from it. state_dict() gives the own parameters only;
  /// load_state_dict() takes a whole state. It is an Error to take back a parameter that another
  /// process has stepped.
  void keep_shard(const std::vector<bool>& own);
  /// The state of one parameter under the names of state_dict(), even if it has taken no step. If
  /// another process keeps it: the number of steps, and zeros of the right shapes.
  NamedTensors state_dict(size_t parameter) const;
  /// Number of bytes of the state of one parameter, in whichever process it is.
  int64_t state_bytes(size_t parameter) const;
  /// Number of bytes of all states in this process.
  int64_t state_bytes() const;

 protected:
  /// Constants of a rule, which OptimizerOf reads.
  struct Traits {
    const char* name;
    bool whole_parameters;
  };
  struct Settings {
    NamedTensors parameters;
    double lr, weight_decay;
  };
  Optimizer(Traits traits, std::vector<Settings> groups);
  const Settings& group_at(size_t group) const;  ///< Error if there is no such group
  /// Registers the parameters of the groups. It calls the virtual functions below.
  void add_parameters();

  // Each of these calls the rule of the group.
  virtual void begin(size_t group, const Piece<float>& piece) const = 0;
  virtual void begin(size_t group, const Piece<double>& piece) const = 0;
  virtual void update(size_t group, const Piece<float>& piece) const = 0;
  virtual void update(size_t group, const Piece<double>& piece) const = 0;
  virtual std::vector<StateTensor> states(size_t group, const Shape& parameter) const = 0;
  virtual std::string refuses(size_t group, const Shape& parameter) const = 0;
  virtual Tensor direction(size_t group, const Tensor& gradient,
                           const std::vector<Tensor>& state) const = 0;
  // All settings but lr and weight_decay.
  virtual NamedNumbers rule_settings(size_t group) const = 0;
  virtual void set_rule_settings(size_t group, const NamedNumbers& values) = 0;

 private:
  struct Entry {
    std::string name;
    Tensor parameter;
    size_t group;
    std::vector<StateTensor> kept;
    bool quantized = false;  // the state has 8 bits: codes and scales, two tensors per StateTensor
    bool own = true;         // this process keeps the state and updates the parameter
    int64_t steps = 0;
    std::vector<Tensor> state = {};
  };
  struct Update;
  const Entry& entry_at(size_t parameter) const;
  static std::string state_name(const Entry& entry, size_t tensor);
  template <class T>
  void update_piece(const Update& update, int64_t begin, int64_t count) const;
  void check_rates(const Settings& settings) const;
  bool fits_states(size_t group) const;
  void add(const std::string& name, const Tensor& parameter, size_t group);
  void check_distinct() const;
  [[nodiscard]] static std::vector<Tensor> fresh_state(const Entry& entry);
  static NamedTensors state_of(const Entry& entry, const std::vector<Tensor>& state);
  Update prepare(size_t entry);
  template <class T>
  Piece<T> piece_of(const Update& update, int64_t begin, int64_t count) const;
  void apply(std::vector<Update> updates);
  void step_leaf(const Tensor& leaf);
  void end_step();

  Traits traits_;
  std::vector<Settings> groups_;
  std::vector<Entry> entries_;
  std::unordered_map<const void*, size_t> entry_of_;  // index in entries_ by parameter
  double lr_factor_ = 1;
};

/// The settings of an optimizer and its arithmetic. Besides the required members it may have
///   double weight_decay;                            0 if left out
///   static constexpr const char* name;              for errors and checkpoints
///   static void settings(auto& rule, auto&& visit); calls visit("beta1", rule.beta1) for each
///                                                   number, bool and enum except lr, weight_decay
///                                                   and those that the form of the state shows.
///                                                   Checkpoints store only the listed settings
///   static constexpr std::array state_names;        names of the state tensors of a parameter, or
///   std::vector<const char*> state_names() const;   if the names depend on the settings, or
///   std::vector<StateTensor> states(const Shape&) const;  if not all have the parameter's shape.
///                                                   Without one of the three there is no state
///   int state_bits;                                 32, or 8 for an 8-bit state (AdamWOptions).
///                                                   Not together with states(), begin(),
///                                                   direction() or whole_parameters
///   static constexpr std::array non_negative;       names of states that are never negative: with
///                                                   8 bits they store no sign
///   void validate() const;                          throws if a setting is wrong
///   std::string refuses(const Shape&) const;        why it refuses such a parameter; empty if it
///                                                   takes it
///   static constexpr bool whole_parameters = true;  a piece is always a whole parameter (for its
///                                                   norm, as in LAMB), so one thread updates even
///                                                   a large one
///   void begin(const Piece<T>& whole) const;        runs once per step for the whole parameter,
///                                                   before update() gets pieces of it
///   Tensor direction(const Tensor& gradient, const std::vector<Tensor>& state) const;
///                                                   computes Piece::direction, of the gradient's
///                                                   shape, for update(): the part of the
///                                                   arithmetic that is written in ops. It must not
///                                                   change its arguments, and may throw
/// Several threads run update() at once; neither it nor begin() may throw. A state tensor as large
/// as the parameter begins where the piece begins, any other with its first element.
template <class R>
concept Rule = std::copyable<R> &&
    requires(const R& rule, const Piece<float>& floats, const Piece<double>& doubles) {
  { rule.lr } -> std::convertible_to<double>;
  rule.update(floats);
  rule.update(doubles);
};

/// Parameters with their own value of every setting.
template <class R>
struct GroupOf {
  NamedTensors parameters;
  R options = {};
};

namespace detail {

struct AnySetting {
  void operator()(const char*, auto&) {}
};

template <class T>
double to_number(const T& value) {
  return static_cast<double>(value);
}
inline double to_number(const std::optional<double>& value) {
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}
/// Bools, integers and enums take integers only. Beyond the bound the conversion is undefined.
template <class T>
void from_number(double number, T& value) {
  [[maybe_unused]] constexpr double kBound = sizeof(T) > 4 ? 0x1p63 : 0x1p31;
  if constexpr (!std::is_floating_point_v<T>)
    check(std::abs(number) < kBound && number == std::floor(number),
          "optimizer: this setting must be an integer, got {}", number);
  value = static_cast<T>(number);
}
inline void from_number(double number, std::optional<double>& value) {
  value = std::isnan(number) ? std::optional<double>() : number;
}

}  // namespace detail

/// The optimizer made from a rule.
template <Rule R>
class OptimizerOf final : public Optimizer {
 public:
  using Options = R;
  using Group = GroupOf<R>;

  explicit OptimizerOf(const ParameterGroups& groups, const R& rule = {})
      : Optimizer(traits(), settings_of(groups, rule)), rules_(groups.list.size(), rule) {
    validate();
  }
  explicit OptimizerOf(const std::vector<Group>& groups)
      : Optimizer(traits(), settings_of(groups)) {
    for (const Group& g : groups) rules_.push_back(g.options);
    validate();
  }
  const R& rule(size_t group = 0) const {
    group_at(group);
    return rules_[group];
  }
  const char* rule_name(size_t group = 0) const override {
    group_at(group);
    if constexpr (requires { rules_[group].rule_name(); }) return rules_[group].rule_name();
    return traits().name;
  }

 private:
  static constexpr bool kListsSettings = requires(R & rule, detail::AnySetting visit) {
    R::settings(rule, visit);
  };
  static Traits traits() {
    Traits t{"optimizer", false};
    if constexpr (requires { R::name; }) t.name = R::name;
    if constexpr (requires { R::whole_parameters; }) t.whole_parameters = R::whole_parameters;
    return t;
  }
  static double decay_of(const R& rule) {
    if constexpr (requires { rule.weight_decay; }) return rule.weight_decay;
    return 0;
  }
  static std::vector<Settings> settings_of(const ParameterGroups& groups, const R& rule) {
    std::vector<Settings> out;
    for (const ParameterGroup& g : groups.list)
      out.push_back(
          {g.parameters, g.lr.value_or(rule.lr), g.weight_decay.value_or(decay_of(rule))});
    return out;
  }
  static std::vector<Settings> settings_of(const std::vector<Group>& groups) {
    std::vector<Settings> out;
    for (const Group& g : groups) out.push_back({g.parameters, g.options.lr, decay_of(g.options)});
    return out;
  }
  void validate() {
    for ([[maybe_unused]] const R& rule : rules_)
      if constexpr (requires { rule.validate(); }) rule.validate();
    add_parameters();
  }

  NamedNumbers rule_settings(size_t group) const override {
    NamedNumbers all;
    if constexpr (kListsSettings)
      R::settings(rules_[group], [&](const char* setting, const auto& value) {
        all.emplace_back(setting, detail::to_number(value));
      });
    return all;
  }
  void set_rule_settings([[maybe_unused]] size_t group,
                         [[maybe_unused]] const NamedNumbers& values) override {
    if constexpr (kListsSettings) {
      R changed = rules_[group];
      R::settings(changed, [&](const char* setting, auto& value) {
        for (const auto& [name, number] : values)
          if (name == setting) detail::from_number(number, value);
      });
      if constexpr (requires { changed.validate(); }) changed.validate();
      rules_[group] = changed;
    }
  }

  template <class T>
  void begin_of(size_t group, const Piece<T>& piece) const {
    if constexpr (requires { rules_[group].begin(piece); }) rules_[group].begin(piece);
  }
  void begin(size_t group, const Piece<float>& piece) const override { begin_of(group, piece); }
  void begin(size_t group, const Piece<double>& piece) const override { begin_of(group, piece); }
  void update(size_t group, const Piece<float>& piece) const override {
    rules_[group].update(piece);
  }
  void update(size_t group, const Piece<double>& piece) const override {
    rules_[group].update(piece);
  }
  std::vector<StateTensor> states(size_t group, const Shape& parameter) const override {
    [[maybe_unused]] const R& rule = rules_[group];
    std::vector<StateTensor> out;
    if constexpr (requires { rule.states(parameter); })
      out = rule.states(parameter);
    else if constexpr (requires { rule.state_names(); })
      for (const char* name : rule.state_names()) out.push_back({name, parameter});
    else if constexpr (requires { R::state_names; })
      for (const char* name : R::state_names) out.push_back({name, parameter});
    if constexpr (requires { rule.state_bits; })
      for (StateTensor& s : out) {
        s.bits = rule.state_bits;
        if constexpr (requires { R::non_negative; })
          for (const std::string_view name : R::non_negative)
            s.non_negative = s.non_negative || name == s.name;
      }
    return out;
  }
  std::string refuses(size_t group, const Shape& parameter) const override {
    if constexpr (requires { rules_[group].refuses(parameter); })
      return rules_[group].refuses(parameter);
    return {};
  }
  Tensor direction(size_t group, const Tensor& gradient,
                   const std::vector<Tensor>& state) const override {
    if constexpr (requires { rules_[group].direction(gradient, state); })
      return rules_[group].direction(gradient, state);
    return {};
  }

  // An 8-bit state is unpacked piece by piece, so none of these could see a whole state.
  static_assert(!requires(const R& r) { r.state_bits; } ||
                !(
                    requires { R::whole_parameters; } ||
                    requires(const R& r, const Piece<float>& p) { r.begin(p); } ||
                    requires(const R& r, const Shape& s) { r.states(s); }));

  std::vector<R> rules_;  // by group
};

}  // namespace tern::optim
