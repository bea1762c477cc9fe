// Variants of Adam (adam.h): with Nesterov's momentum (NAdam), with a rectified variance (RAdam),
// and with steps in proportion to the norm of a layer's weights (LAMB). Definitions, defaults and
// the names of the state are those of torch.optim, for LAMB those of timm.optim.
#pragma once

#include "tern/optim/optimizer.h"

namespace tern::optim {

/// Dozat 2016. The state includes the product of the momenta so far, a tensor of one element.
struct NAdamOptions {
  double lr = 2e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  double momentum_decay = 4e-3;         ///< how fast the momentum rises to beta1
  bool decoupled_weight_decay = false;  ///< as AdamW, not through the gradient
  static constexpr const char* name = "NAdam";
  std::vector<StateTensor> states(const Shape& parameter) const;
  static void settings(auto& o, auto&& visit) {
    visit("beta1", o.beta1), visit("beta2", o.beta2), visit("eps", o.eps),
        visit("momentum_decay", o.momentum_decay),
        visit("decoupled_weight_decay", o.decoupled_weight_decay);
  }
  void validate() const;
  template <class T>
  void begin(const Piece<T>& whole) const;
  template <class T>
  void update(const Piece<T>& piece) const;

 private:
  double momentum(int64_t step) const;
};
using NAdam = OptimizerOf<NAdamOptions>;

/// Liu et al. 2020: steps use only the momentum until the variance of the second moment is bounded.
struct RAdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled_weight_decay = false;  ///< as AdamW, not through the gradient
  static constexpr const char* name = "RAdam";
  static constexpr std::array state_names = {"exp_avg", "exp_avg_sq"};
  static void settings(auto& o, auto&& visit) {
    visit("beta1", o.beta1), visit("beta2", o.beta2), visit("eps", o.eps),
        visit("decoupled_weight_decay", o.decoupled_weight_decay);
  }
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using RAdam = OptimizerOf<RAdamOptions>;

/// You et al. 2020, algorithm 2: r = adam + weight_decay p; p -= lr |p| / |r| r, with norms over a
/// whole parameter (the ratio is 1 if one of them is 0). The paper clips no gradients; timm bounds
/// their norm by 1, for which call clip_grad_norm before the step. The bias correction counts the
/// steps of the parameter, as everywhere here; timm counts those of the group, including steps in
/// which the parameter had no gradient and its moments did not change.
struct LambOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0.01;
  bool bias_correction = true;
  bool trust_clip = false;    ///< bounds the ratio by 1 (LAMBC)
  bool always_adapt = false;  ///< uses the ratio even without weight decay (biases, norms)
  static constexpr const char* name = "Lamb";
  static constexpr std::array state_names = {"exp_avg", "exp_avg_sq"};
  static constexpr bool whole_parameters = true;
  static void settings(auto& o, auto&& visit) {
    visit("beta1", o.beta1), visit("beta2", o.beta2), visit("eps", o.eps),
        visit("bias_correction", o.bias_correction), visit("trust_clip", o.trust_clip),
        visit("always_adapt", o.always_adapt);
  }
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Lamb = OptimizerOf<LambOptions>;

extern template class OptimizerOf<NAdamOptions>;
extern template class OptimizerOf<RAdamOptions>;
extern template class OptimizerOf<LambOptions>;

}  // namespace tern::optim
