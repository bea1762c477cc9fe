// Layers that are random in training and do nothing in evaluation. Each has its own generator,
// split off the given one, so that its numbers do not depend on other layers. The module walk finds
// it (generator_state), so that training can be resumed exactly. The probability p is in [0, 1);
// PyTorch's layers also take 1.
#pragma once

#include "tern/core/base/rng.h"
#include "tern/core/tensor/tensor.h"
#include "tern/nn/training_mode.h"

namespace tern::nn {

/// Base of the layers below.
struct RandomLayer {
  double p;
  TrainingMode training = true;
  mutable Rng rng;  // drawing does not count as a change of the layer

  RandomLayer(const char* layer, double p, Rng& rng);
  /// The current probability: p in training, else 0. For ops that apply dropout themselves, with
  /// rng.
  double rate() const { return training ? p : 0; }
  static void fields(auto& m, auto&& visit) {
    visit("training", m.training);
    visit("rng", m.rng);
  }
};

/// Zeroes elements with probability p and scales the others by 1/(1-p) (Srivastava et al. 2014).
struct Dropout : RandomLayer {
  Dropout(double p, Rng& rng) : RandomLayer("Dropout", p, rng) {}
  Tensor operator()(const Tensor& x) const;
  /// residual + dropout of x, in one pass.
  Tensor add(const Tensor& x, const Tensor& residual) const;
};

/// Zeroes whole channels x[i][c] with probability p and scales the others by 1/(1-p) (Tompson et
/// al. 2015).
struct ChannelDropout : RandomLayer {
  ChannelDropout(double p, Rng& rng) : RandomLayer("ChannelDropout", p, rng) {}
};

struct Dropout1d : ChannelDropout {  ///< x (N, C, L)
  using ChannelDropout::ChannelDropout;
  Tensor operator()(const Tensor& x) const;
};
struct Dropout2d : ChannelDropout {  ///< x (N, C, H, W)
  using ChannelDropout::ChannelDropout;
  Tensor operator()(const Tensor& x) const;
};
struct Dropout3d : ChannelDropout {  ///< x (N, C, D, H, W)
  using ChannelDropout::ChannelDropout;
  Tensor operator()(const Tensor& x) const;
};

/// Stochastic depth: zeroes whole samples x[i] with probability p and scales the others by 1/(1-p)
/// (Huang et al. 2016). For residual branches: x + drop_path(f(x)).
struct DropPath : RandomLayer {
  DropPath(double p, Rng& rng) : RandomLayer("DropPath", p, rng) {}
  Tensor operator()(const Tensor& x) const;
  /// residual + drop_path(x * scale), in one pass; scale (broadcast) may be undefined.
  Tensor add(const Tensor& x, const Tensor& residual, const Tensor& scale = {}) const;

 private:
  Tensor factors(const Tensor& x) const;
};

}  // namespace tern::nn
