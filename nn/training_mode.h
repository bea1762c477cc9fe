// Whether a layer is in training or in evaluation. Layers that differ between the two have one:
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
// nn::set_training(model, on) writes all of a model's, nn::freeze(part) holds those of a part at
// evaluation (nn/module.h).
#pragma once

namespace tern::nn {

class TrainingMode {
 public:
  TrainingMode(bool on = true) : on_(on) {}  // NOLINT: implicit on purpose
  TrainingMode(const TrainingMode&) = default;
  /// Sets the mode. A held one stays in evaluation, and takes this mode when it is let go.
  TrainingMode& operator=(bool on) {
    on_ = on;
    return *this;
  }
  /// Takes the mode alone, as an assignment to a frozen parameter leaves it frozen.
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
