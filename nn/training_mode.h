// Whether a layer is in training or in evaluation. A layer that differs between the two has a
// TrainingMode:
//
//   struct Noise {
//     nn::TrainingMode training;
//     mutable Rng rng;
//     Tensor operator()(const Tensor& x) const { return training ? x + randn_like(x, rng) : x; }
//     static void fields(auto& m, auto&& visit) {
//       visit("training", m.training), visit("rng", m.rng);
//     }
//   };
//
// nn::set_training(model, on) sets all modes of a model. nn::freeze(part) holds those of a part in
// evaluation (nn/module.h). A mode that `fields` does not list cannot be set: a layer that is in
// training for this reason inside an EvalScope is an Error.
#pragma once

namespace tern::nn {

class TrainingMode {
 public:
  TrainingMode(bool on = true) : on_(on) {}  // NOLINT: implicit on purpose
  TrainingMode(const TrainingMode&) = default;
  /// Sets the mode. While it is held, it stays in evaluation; it takes the new mode when released.
  TrainingMode& operator=(bool on) {
    on_ = on;
    return *this;
  }
  /// Changes nothing, as assigning to a frozen parameter leaves it frozen: `model = best` does not
  /// put the model into the mode that it had when `best` was copied. To take another layer's mode,
  /// assign its wanted().
  TrainingMode& operator=(const TrainingMode&) { return *this; }
  /// Takes the mode, not whether it is held: for `model = load(path)`, and for vectors that move
  /// their elements.
  TrainingMode& operator=(TrainingMode&& other) { return *this = other.on_; }

  /// Whether the layer is in training.
  operator bool() const {  // NOLINT: implicit on purpose
    if (!on_ || held_) return false;
    if (!known_) check_may_train();
    return true;
  }
  /// The mode that was set last, held or not.
  bool wanted() const { return on_; }
  bool held() const { return held_; }
  void hold(bool held) { held_ = held; }
  /// For walks, which found it in a module.
  void mark_known() {
    if (!known_) known_ = true;
  }

 private:
  static void check_may_train();

  bool on_;
  bool held_ = false;
  bool known_ = false;
};

}  // namespace tern::nn
