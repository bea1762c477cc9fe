// Adafactor: Adam's second moment kept as one row and one column of each matrix, no first moment
// (Shazeer & Stern 2018, algorithms 4 and 5). Definitions, defaults and names of the state are
// torch.optim's.
#pragma once

#include <optional>

#include "tern/optim/optimizer.h"

namespace tern::optim {

/// A matrix (R, C) has R + C numbers of state, (..., R, C) as many of each; a vector as many as it
/// has elements. lr bounds the rate relative to the weights: the step is
/// min(lr, 1 / sqrt(t)) max(eps2, rms(p)) of a direction whose root mean square is at most d.
/// A matrix with a gradient above 1.8e19, whose square f32 cannot hold, stands still from then on.
struct AdafactorOptions {
  double lr = 1e-2;
  double beta2_decay = -0.8;  ///< the second moment forgets t^beta2_decay of itself in step t
  /// Least root of the second moment; none: the type's epsilon. In f32 never less than 1.1e-19.
  std::optional<double> eps1 = {};
  double eps2 = 1e-3;       ///< least scale of a parameter
  double d = 1;             ///< bound of the direction's root mean square
  double weight_decay = 0;  ///< p -= lr weight_decay p
  static constexpr const char* name = "Adafactor";
  static constexpr bool whole_parameters = true;
  std::vector<StateTensor> states(const Shape& parameter) const;
  static void settings(auto& o, auto&& visit) {
    visit("beta2_decay", o.beta2_decay), visit("eps1", o.eps1), visit("eps2", o.eps2),
        visit("d", o.d);
  }
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Adafactor = OptimizerOf<AdafactorOptions>;

extern template class OptimizerOf<AdafactorOptions>;

}  // namespace tern::optim
