// Clips and checks gradients between backward() and step(). Parameters without a gradient are
// skipped. If an optimizer has taken a gradient inside backward, an Error names the parameter.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tern/core/io/state.h"

namespace tern::optim {

struct ClipNormOptions {
  double p = 2;  ///< 2, or infinity for the largest absolute value; others: Error
  /// false, PyTorch's default: scales the gradients even then.
  bool error_if_nonfinite = true;
};
/// Scales all gradients by min(1, max_norm / (norm + 1e-6)), where `norm` is the norm of all of
/// them together. Returns the norm before scaling. If it is infinite or NaN, an Error names the
/// first parameter that causes it. A parameter that is in the list twice counts once. The sum has a
/// fixed order and does not depend on the threads.
double clip_grad_norm(const NamedTensors& parameters, double max_norm,
                      const ClipNormOptions& options = {});
/// The same for nn::parameters(model); errors give the number of a parameter.
double clip_grad_norm(const std::vector<Tensor>& parameters, double max_norm,
                      const ClipNormOptions& options = {});

/// The sum of squares of each parameter's gradient (0 without a gradient), which may be infinite or
/// NaN. One parallel pass; a sum depends neither on the other parameters nor on the threads.
std::vector<double> grad_squares(const NamedTensors& parameters);

/// Clamps every element of the gradients into [-bound, bound].
void clip_grad_value(const NamedTensors& parameters, double bound);
void clip_grad_value(const std::vector<Tensor>& parameters, double bound);

struct NonFiniteGradient {
  std::string parameter;  ///< its name
  int64_t element;        ///< in row-major order
  double value;           ///< NaN or an infinity
};
/// The first element that is not finite, in the order of the parameters. One parallel pass that
/// reads every gradient once.
std::optional<NonFiniteGradient> find_non_finite_gradient(const NamedTensors& parameters);

/// Throws an Error that names that element. Call it before step(), which would make the weights
/// infinite or NaN, too:
///   optim::check_finite_gradients(optimizer.parameters());
/// clip_grad_norm makes this check itself.
void check_finite_gradients(const NamedTensors& parameters);

}  // namespace tern::optim
