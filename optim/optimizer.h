// The optimizers that everybody knows: their settings, as rules (rule.h). Adam's kin is in
// adam_family.h, and lion.h, adafactor.h and muon.h have more.
//
// Those that divide by the root of an average of squares keep it in the parameter's type. In f32
// the square of a gradient above 1.8e19 is infinite: that element stands still from then on (only
// in that step where beta2, alpha or rho is 0; in 8 bits with its whole block). The square of one
// below 2e-23 is 0: with an eps of 0 such a gradient makes an infinite step, and 0 makes NaN.
#pragma once

#include <array>
#include <vector>

#include "tern/optim/rule.h"

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
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Adam = OptimizerOf<AdamOptions>;

struct SgdOptions {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;  ///< needs momentum, and no dampening
  static constexpr const char* name = "Sgd";
  std::vector<const char*> state_names() const;  ///< momentum_buffer, if there is momentum
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Sgd = OptimizerOf<SgdOptions>;

struct RmsPropOptions {
  double lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0;
  bool centered = false;  ///< divides by the deviation from the mean gradient (Graves 2013)
  static constexpr const char* name = "RmsProp";
  void validate() const;
  std::vector<const char*> state_names() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using RmsProp = OptimizerOf<RmsPropOptions>;

/// Zeiler 2012.
struct AdadeltaOptions {
  double lr = 1, rho = 0.9, eps = 1e-6, weight_decay = 0;  ///< eps starts it: more than 0
  static constexpr const char* name = "Adadelta";
  static constexpr std::array state_names = {"square_avg", "acc_delta"};
  void validate() const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Adadelta = OptimizerOf<AdadeltaOptions>;

extern template class OptimizerOf<AdamWOptions>;
extern template class OptimizerOf<AdamOptions>;
extern template class OptimizerOf<SgdOptions>;
extern template class OptimizerOf<RmsPropOptions>;
extern template class OptimizerOf<AdadeltaOptions>;

}  // namespace tern::optim
