// Lion: the sign of a momentum as the step (Chen et al. 2023, "Symbolic discovery of optimization
// algorithms", algorithm 2). One tensor of state; rates are 3 to 10 times smaller than AdamW's,
// decays as much larger.
#pragma once

#include "tern/optim/optimizer.h"

namespace tern::optim {

/// m the momentum: p -= lr (sign(lerp(m, g, 1 - beta1)) + weight_decay p); m = lerp(m, g, 1 -
/// beta2). Defaults are the paper's, and timm's.
struct LionOptions {
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
  static constexpr const char* name = "Lion";
  static constexpr std::array state_names = {"exp_avg"};
  static void settings(auto& o, auto&& visit) { visit("beta1", o.beta1), visit("beta2", o.beta2); }
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Lion = OptimizerOf<LionOptions>;

extern template class OptimizerOf<LionOptions>;

}  // namespace tern::optim
