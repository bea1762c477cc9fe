// Adam and AdamW. Their variants are in adam_family.h.
//
// Optimizers that divide by the root of an average of squares keep it in the parameter's type. In
// f32 the square of a gradient above 1.8e19 is infinite: that element stands still from then on
// (only in that step where beta2, alpha or rho is 0; in 8 bits with its whole block). The square of
// one below 2e-23 is 0: with an eps of 0 such a gradient makes an infinite step, and 0 makes NaN.
#pragma once

#include <array>

#include "tern/optim/optimizer.h"

namespace tern::optim {

/// Adam with the weight decay applied to the parameters themselves (Loshchilov & Hutter 2019).
///
/// With state_bits = 8 the state of parameters of 4,096 elements and more is kept in a byte each
/// and a scale (f32) for every 256: dynamic block-wise quantisation (Dettmers et al. 2022, "8-bit
/// Optimizers via Block-wise Quantization", sections 1.2 and 2; optim/quantized.h). A quarter of
/// the memory; the arithmetic of a step is that of 32 bits, and as deterministic.
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
  int state_bits = 32;  ///< or 8: as AdamW's
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
