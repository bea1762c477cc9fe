// Exponential moving average of weights (Polyak averaging), for evaluation.
#pragma once

#include "tern/core/io/state.h"

namespace tern::optim {

struct EmaOptions {
  double decay = 0.999;
  bool warmup = false;  ///< update t uses min(decay, (1 + t) / (10 + t)), so that the start fades
};

/// average <- decay * average + (1 - decay) * weights at every update; it starts at the weights.
/// Give it parameters and buffers (nn::state_dict): integers are copied rather than averaged.
///
///   optim::Ema ema(nn::state_dict(model), {.decay = 0.999});
///   ... optimizer.step(); ema.update();
///   ema.swap();  evaluate(model);  ema.swap();
class Ema {
 public:
  explicit Ema(const NamedTensors& weights, const EmaOptions& options = {});
  void update();
  /// Exchanges the weights with the average; a second call puts them back. An update in between is
  /// an Error.
  void swap();
  bool swapped() const { return swapped_; }
  /// The averages under the weights' names, whether swapped in or not.
  NamedTensors averages() const;

  /// The averages and the number of updates ("updates", i64).
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 private:
  EmaOptions options_;
  NamedTensors weights_, averages_;
  int64_t updates_ = 0;
  bool swapped_ = false;
};

}  // namespace tern::optim
