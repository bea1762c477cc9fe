// Bounds on gradients, between backward() and step(). Parameters without a gradient are passed by.
#pragma once

#include "tern/core/io/state.h"

namespace tern::optim {

struct ClipNormOptions {
  double p = 2;                    ///< 2, or infinity for the largest absolute value
  bool error_if_nonfinite = true;  ///< false: the gradients are scaled by what comes out
};
/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), `norm` being that of all of them
/// together; gives the norm before. A norm of infinity or NaN is an Error that names the first
/// parameter it comes from. The sum has a fixed order: it does not depend on the threads.
double clip_grad_norm(const NamedTensors& parameters, double max_norm,
                      const ClipNormOptions& options = {});

/// Clamps every element of the gradients into [-bound, bound].
void clip_grad_value(const NamedTensors& parameters, double bound);

}  // namespace tern::optim
