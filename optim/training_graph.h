// Checks that a training reaches the parameters that it should.
#pragma once

#include "tern/core/io/state.h"
#include "tern/optim/optimizer.h"

namespace tern::optim {

/// After the first loss: the leaves that it depends on, the model's parameters that require a
/// gradient, and the optimizer's must be the same. Otherwise an Error with the names of those that
/// do not agree: a parameter that the loss does not reach (a severed gradient, an unused layer), a
/// leaf that the model does not know (a field that `fields` forgets), a parameter that the
/// optimizer lacks or that only it has. The loss may also depend on `others`, which
/// other optimizers train.
void check_training_graph(const Tensor& loss, const NamedTensors& parameters,
                          const Optimizer& optimizer, const NamedTensors& others = {});

/// The same without a model: every leaf that the loss depends on must be the optimizer's, and the
/// other way round.
void check_training_graph(const Tensor& loss, const Optimizer& optimizer);

}  // namespace tern::optim
