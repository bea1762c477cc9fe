// Bounds and checks on gradients, between backward() and step(). Parameters without a gradient are
// passed by; gradients that an optimizer has taken inside backward are refused by name.
#pragma once

#include <optional>
#include <string>
#include <vector>

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
/// The same for nn::parameters(model), where errors name a parameter by its number.
double clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm,
                      const ClipNormOptions& options = {});

/// The sum of the squares of each parameter's gradient (0 where it has none), which may be infinite
/// or NaN. One parallel pass; a parameter's sum does not depend on the others, nor on the threads.
std::vector<double> grad_squares(const NamedTensors& parameters);

/// Clamps every element of the gradients into [-bound, bound].
void clip_grad_value(const NamedTensors& parameters, double bound);
void clip_grad_value(const std::vector<Tensor>& parameters, double bound);

struct NonFiniteGradient {
  std::string parameter;  ///< its name
  int64_t element;        ///< in row-major order
  double value;           ///< NaN or an infinity
};
/// The first gradient, in the order of the parameters, that is not finite, and where. One parallel
/// pass that reads every gradient once.
std::optional<NonFiniteGradient> find_non_finite_gradient(const NamedTensors& parameters);

/// An Error that names it. Call it before step(), which turns such gradients into such weights:
///   optim::check_finite_gradients(optimizer.parameters());
/// clip_grad_norm looks by itself.
void check_finite_gradients(const NamedTensors& parameters);

}  // namespace tern::optim
