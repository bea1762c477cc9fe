// Gradient descent, with or without momentum.
#pragma once

#include <vector>

#include "tern/optim/optimizer.h"

namespace tern::optim {

struct SgdOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;  ///< needs momentum, and no dampening
  static constexpr const char* name = "Sgd";
  std::vector<const char*> state_names() const;  ///< momentum_buffer, if there is momentum
  static void settings(auto& o, auto&& visit) {
    visit("momentum", o.momentum), visit("dampening", o.dampening), visit("nesterov", o.nesterov);
  }
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Sgd = OptimizerOf<SgdOptions>;

extern template class OptimizerOf<SgdOptions>;

}  // namespace tern::optim
