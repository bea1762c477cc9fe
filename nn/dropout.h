// Layers that are random in training and nothing in evaluation. Each draws from a generator of its
// own, split off the one it is given, so that its numbers depend on no other layer; the module
// walk finds it (generator_state), so that training can be continued exactly.
#pragma once

#include "tern/core/base/rng.h"
#include "tern/core/tensor/tensor.h"

namespace tern::nn {

/// Zeroes elements with probability p and scales the others by 1/(1-p) (Srivastava et al. 2014).
struct Dropout {
  double p;
  bool training = true;
  mutable Rng rng;  // drawing does not change what the layer is

  Dropout(double p, Rng& rng);
  Tensor operator()(const Tensor& x) const;
  /// residual + the same of x, in one pass.
  Tensor add(const Tensor& x, const Tensor& residual) const;
  /// The probability as it is now: p in training, else 0. For ops that drop themselves, with rng.
  double rate() const { return training ? p : 0; }
  static void fields(auto& m, auto&& visit) {
    visit("training", m.training);
    visit("rng", m.rng);
  }
};

/// Zeroes whole channels, x[i][c], with probability p and scales the others by 1/(1-p) (Tompson et
/// al. 2015).
struct ChannelDropout {
  double p;
  bool training = true;
  mutable Rng rng;

  ChannelDropout(double p, Rng& rng);
  static void fields(auto& m, auto&& visit) {
    visit("training", m.training);
    visit("rng", m.rng);
  }
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

/// Stochastic depth: zeroes whole samples x[i] with probability p and scales the others by
/// 1/(1-p) (Huang et al. 2016). Goes on a residual branch: x + drop_path(f(x)).
struct DropPath {
  double p;
  bool training = true;
  mutable Rng rng;

  DropPath(double p, Rng& rng);
  Tensor operator()(const Tensor& x) const;
  /// residual + the same of x * scale, in one pass; scale (broadcast) may be undefined.
  Tensor add(const Tensor& x, const Tensor& residual, const Tensor& scale = {}) const;
  double rate() const { return training ? p : 0; }
  static void fields(auto& m, auto&& visit) {
    visit("training", m.training);
    visit("rng", m.rng);
  }

 private:
  Tensor factors(const Tensor& x) const;
};

}  // namespace tern::nn
