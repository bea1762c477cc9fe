// Adafactor: keeps Adam's second moment as one row and one column per matrix, and no first moment
// (Shazeer & Stern 2018, algorithms 4 and 5). Definitions, defaults and the names of the state are
// those of torch.optim.
#pragma once

#include <optional>

#include "tern/optim/optimizer.h"

namespace tern::optim {

/// The state of a matrix (R, C) has R + C numbers, that of (..., R, C) as many for each matrix,
/// that of a vector one per element. lr bounds the step relative to the weights: the step is
/// min(lr, 1 / sqrt(t)) max(eps2, rms(p)) times a direction whose root mean square is at most d.
/// After a gradient above 1.8e19, whose square f32 cannot hold, a matrix no longer changes.
struct AdafactorOptions {
  double lr = 1e-2;
  double beta2_decay = -0.8;  ///< step t replaces a share t^beta2_decay of the second moment
  /// Lower bound of the second moment's root, in f32 at least 1.1e-19. Without a value: the epsilon
  /// of the type.
  std::optional<double> eps1 = {};
  double eps2 = 1e-3;       ///< lower bound of rms(p)
  double d = 1;             ///< >= 1: upper bound of the direction's root mean square
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
