// Exponential moving average of weights (Polyak averaging), for evaluation.
#pragma once

#include "tern/core/io/state.h"

namespace tern::optim {

struct EmaOptions {
  double decay = 0.999;
  bool warmup = false;  ///< update t uses min(decay, (1 + t) / (10 + t)), so that the start fades
};

/// average <- decay * average + (1 - decay) * weights at every update. It starts at the weights
/// that the model has when it is made: load weights before, or call restart().
/// Give it parameters and buffers (nn::state_dict); integers are copied, not averaged. It holds
/// handles of the weights: after nn::to, an update is an Error.
///
///   optim::Ema ema(nn::state_dict(model), {.decay = 0.999});
///   ... optimizer.step(); ema.update();
///   {
///     optim::EmaScope averaged(ema);
///     evaluate(model);  // may throw: the weights come back
///   }
class Ema {
 public:
  explicit Ema(const NamedTensors& weights, const EmaOptions& options = {});
  void update();
  /// The same with a decay in [0, 1] for this update only.
  void update(double decay);
  /// Starts again at the weights as they are now, such as those of a file that was loaded since.
  void restart();
  /// Sets the weights to the averages; integers stay.
  void pull();
  /// Exchanges the weights with the averages; a second call puts them back. Between the two, an
  /// update or a step of an optimizer is an Error. Allocates nothing. EmaScope makes both calls.
  /// Averages of several Emas over one model may be swapped in inside each other; it is an Error to
  /// put them back in another order than the reverse one.
  void swap();
  bool swapped() const { return swapped_; }
  /// The averages under the weights' names, whether swapped in or not.
  NamedTensors averages() const;
  /// The weights under their names, whether the averages are swapped in or not.
  NamedTensors weights() const;

  /// The averages and the number of updates ("updates", i64).
  NamedTensors state_dict() const;
  void load_state_dict(const NamedTensors& state);

 private:
  void check_held() const;
  void check_in_training() const;
  void exchange() noexcept;
  friend class EmaScope;

  EmaOptions options_;
  NamedTensors weights_, averages_;
  std::vector<int> depths_;  // of each weight's exchange, while the averages are swapped in
  int64_t updates_ = 0;
  bool swapped_ = false;
};

/// Swaps the averages into the weights and, when it is destroyed, out again.
/// REQUIRES: the averages are not swapped in already, and `ema` outlives the scope.
class EmaScope {
 public:
  [[nodiscard]] explicit EmaScope(Ema& ema);
  ~EmaScope();
  EmaScope(const EmaScope&) = delete;
  EmaScope& operator=(const EmaScope&) = delete;

 private:
  Ema& ema_;
};

}  // namespace tern::optim
