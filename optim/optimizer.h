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
// the number of threads. Parameters without a gradient are left alone. The optimizer holds handles:
// the parameters must not be replaced by others (nn::to) while it lives.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tern/core/io/state.h"

namespace tern::kernels {
template <class T>
struct ParameterPiece;
}

namespace tern::optim {

/// Parameters that share settings; what is not set here is as in the optimizer's options.
struct ParameterGroup {
  NamedTensors parameters;
  std::optional<double> lr = {}, weight_decay = {};
};

/// One group or several.
struct ParameterGroups {
  std::vector<ParameterGroup> list;
  ParameterGroups(NamedTensors parameters) : list{{std::move(parameters)}} {}       // NOLINT
  ParameterGroups(std::vector<ParameterGroup> groups) : list(std::move(groups)) {}  // NOLINT
};

/// Two groups: `weight_decay` for matrices and larger, none for biases and the weights of norms
/// (up to one axis).
ParameterGroups decay_groups(const NamedTensors& parameters, double weight_decay);

/// What all optimizers have in common.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Changes every parameter that has a gradient.
  void step();
  /// Clears the gradients.
  void zero_grad();

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
  /// `state_names`: of the tensors kept a parameter, up to three; they start at 0.
  Optimizer(const char* name, const ParameterGroups& groups, double lr, double weight_decay,
            std::vector<const char*> state_names);

  virtual void update(const kernels::ParameterPiece<float>& piece) const = 0;
  virtual void update(const kernels::ParameterPiece<double>& piece) const = 0;

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
  void add(const std::string& name, const Tensor& parameter, size_t group);
  std::vector<Tensor> fresh_state(const Tensor& parameter) const;

  const char* name_;
  std::vector<const char*> state_names_;
  std::vector<Settings> groups_;
  std::vector<Entry> entries_;
  double lr_factor_ = 1;
};

struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
};
/// Adam with the weight decay applied to the parameters themselves (Loshchilov & Hutter 2019).
class AdamW final : public Optimizer {
 public:
  explicit AdamW(const ParameterGroups& groups, const AdamWOptions& options = {});

 private:
  void update(const kernels::ParameterPiece<float>& piece) const override;
  void update(const kernels::ParameterPiece<double>& piece) const override;
  AdamWOptions options_;
};

struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
};
/// Kingma & Ba 2015; weight decay is added to the gradient.
class Adam final : public Optimizer {
 public:
  explicit Adam(const ParameterGroups& groups, const AdamOptions& options = {});

 private:
  void update(const kernels::ParameterPiece<float>& piece) const override;
  void update(const kernels::ParameterPiece<double>& piece) const override;
  AdamOptions options_;
};

struct SgdOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;  ///< needs momentum, and no dampening
};
class Sgd final : public Optimizer {
 public:
  explicit Sgd(const ParameterGroups& groups, const SgdOptions& options = {});

 private:
  void update(const kernels::ParameterPiece<float>& piece) const override;
  void update(const kernels::ParameterPiece<double>& piece) const override;
  SgdOptions options_;
};

struct RmsPropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;  ///< divides by the deviation from the mean gradient (Graves 2013)
};
class RmsProp final : public Optimizer {
 public:
  explicit RmsProp(const ParameterGroups& groups, const RmsPropOptions& options = {});

 private:
  void update(const kernels::ParameterPiece<float>& piece) const override;
  void update(const kernels::ParameterPiece<double>& piece) const override;
  RmsPropOptions options_;
};

struct AdadeltaOptions {
  double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;
};
/// Zeiler 2012.
class Adadelta final : public Optimizer {
 public:
  explicit Adadelta(const ParameterGroups& groups, const AdadeltaOptions& options = {});

 private:
  void update(const kernels::ParameterPiece<float>& piece) const override;
  void update(const kernels::ParameterPiece<double>& piece) const override;
  AdadeltaOptions options_;
};

}  // namespace tern::optim
