// RMSprop and Adadelta, which divide by the root of an average of squares. adam.h describes what
// this means for very large and very small gradients.
#pragma once

#include <array>
#include <vector>

#include "tern/optim/optimizer.h"

namespace tern::optim {

struct RmsPropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;  ///< divides by the deviation from the mean gradient (Graves 2013)
  static constexpr const char* name = "RmsProp";
  static void settings(auto& o, auto&& visit) {
    visit("alpha", o.alpha), visit("eps", o.eps), visit("momentum", o.momentum),
        visit("centered", o.centered);
  }
  void validate() const;
  std::vector<const char*> state_names() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using RmsProp = OptimizerOf<RmsPropOptions>;

/// Zeiler 2012.
struct AdadeltaOptions {
  double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;  ///< eps > 0: the first step needs it
  static constexpr const char* name = "Adadelta";
  static constexpr std::array state_names = {"square_avg", "acc_delta"};
  static void settings(auto& o, auto&& visit) { visit("rho", o.rho), visit("eps", o.eps); }
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Adadelta = OptimizerOf<AdadeltaOptions>;

extern template class OptimizerOf<RmsPropOptions>;
extern template class OptimizerOf<AdadeltaOptions>;

}  // namespace tern::optim
