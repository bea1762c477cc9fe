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
// evaluation (nn/module.h).
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
  /// Copies the mode, not whether it is held: assigning to a frozen parameter leaves it frozen too.
  TrainingMode& operator=(const TrainingMode& other) { return *this = other.on_; }

  /// Whether the layer is in training.
  operator bool() const { return on_ && !held_; }  // NOLINT: implicit on purpose
  /// The mode that was set last, held or not.
  bool wanted() const { return on_; }
  bool held() const { return held_; }
  void hold(bool held) { held_ = held; }

 private:
  bool on_;
  bool held_ = false;
};

}  // namespace tern::nn
