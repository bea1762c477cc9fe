// Adam and AdamW. Their variants are in adam_family.h.
//
// Optimizers that divide by the root of an average of squares keep that average in the parameter's
// type. In f32 the square of a gradient above 1.8e19 is infinite: from then on that element no
// longer changes (with beta2, alpha or rho = 0 only in that step; in 8 bits the whole block). The
// square of a gradient below 2e-23 is 0: with eps = 0 such a gradient makes an infinite step, and a
// gradient of 0 makes NaN.
#pragma once

#include <array>

#include "tern/optim/optimizer.h"

namespace tern::optim {

/// Adam with the weight decay applied to the parameters themselves (Loshchilov & Hutter 2019).
///
/// With state_bits = 8 the state of parameters of 4,096 or more elements takes one byte per number
/// and one scale (f32) per 256 numbers: dynamic block-wise quantisation (Dettmers et al. 2022,
/// "8-bit Optimizers via Block-wise Quantization", sections 1.2 and 2; optim/quantized.h). It takes
/// a quarter of the memory. A step computes in 32 bits and is as deterministic.
struct AdamWOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
  int state_bits = 32;  ///< or 8
  static constexpr const char* name = "AdamW";
  static constexpr std::array state_names = {"exp_avg", "exp_avg_sq"};
  static constexpr std::array non_negative = {"exp_avg_sq"};
  static void settings(auto& o, auto&& visit) {
    visit("beta1", o.beta1), visit("beta2", o.beta2), visit("eps", o.eps);
  }
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using AdamW = OptimizerOf<AdamWOptions>;

/// Kingma & Ba 2015; weight decay is added to the gradient.
struct AdamOptions {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  int state_bits = 32;  ///< or 8, as in AdamWOptions
  static constexpr const char* name = "Adam";
  static constexpr std::array state_names = {"exp_avg", "exp_avg_sq"};
  static constexpr std::array non_negative = {"exp_avg_sq"};
  static void settings(auto& o, auto&& visit) {
    visit("beta1", o.beta1), visit("beta2", o.beta2), visit("eps", o.eps);
  }
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Adam = OptimizerOf<AdamOptions>;

extern template class OptimizerOf<AdamWOptions>;
extern template class OptimizerOf<AdamOptions>;

}  // namespace tern::optim
