// Checks that a training reaches all parameters that it should train.
#pragma once

#include "tern/core/io/state.h"
#include "tern/optim/optimizer.h"

namespace tern::optim {

/// Call it after the first loss. The leaves that the loss depends on, the model's parameters that
/// require a gradient, and the optimizer's parameters must be the same. Otherwise an Error names
/// those that differ: a parameter that the loss does not depend on (a severed gradient, an unused
/// layer), a leaf that the model does not list (`fields` lacks it), a parameter that the optimizer
/// lacks or that only it has. The loss may also depend on `others`, which other optimizers train.
void check_training_graph(const Tensor& loss, const NamedTensors& parameters,
                          const Optimizer& optimizer, const NamedTensors& others = {});

/// The same without a model: the leaves that the loss depends on must be exactly the optimizer's
/// parameters.
void check_training_graph(const Tensor& loss, const Optimizer& optimizer);

/// The part of that check which needs no loss: Error if the optimizer lacks a parameter that
/// requires a gradient.
void check_optimized(const NamedTensors& parameters, const Optimizer& optimizer);

}  // namespace tern::optim
