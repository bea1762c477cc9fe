// Lion: steps by the sign of a momentum (Chen et al. 2023, "Symbolic discovery of optimization
// algorithms", algorithm 2). It keeps one state tensor. Use a learning rate 3 to 10 times smaller
// than AdamW's and a weight decay larger by the same factor.
#pragma once

#include "tern/optim/optimizer.h"

namespace tern::optim {

/// p -= lr (sign(lerp(m, g, 1 - beta1)) + weight_decay p), then m = lerp(m, g, 1 - beta2), where m
/// is the momentum. The defaults are those of the paper and of timm.
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
