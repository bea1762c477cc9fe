// The optimizers' constants and the kernels they hand their pieces to.
#include "tern/core/base/error.h"
#include "tern/core/kernels/optim.h"
#include "tern/optim/optimizer.h"

namespace tern::optim {
namespace {

using kernels::ParameterPiece;

void check_betas(const char* name, double beta1, double beta2, double eps) {
  check(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1 && eps >= 0,
        "{}: betas must lie in [0, 1) and eps must not be negative; they are {}, {} and {}", name,
        beta1, beta2, eps);
}

std::vector<const char*> sgd_state(const SgdOptions& o) {
  if (o.momentum == 0) return {};
  return {"momentum_buffer"};
}

std::vector<const char*> rmsprop_state(const RmsPropOptions& o) {
  std::vector<const char*> names = {"square_avg"};
  if (o.centered) names.push_back("grad_avg");
  if (o.momentum != 0) names.push_back("momentum_buffer");
  return names;
}

template <class T>
void update_adam(const ParameterPiece<T>& piece, const auto& o, bool decoupled) {
  kernels::adam(piece, {o.beta1, o.beta2, o.eps, decoupled});
}

template <class T>
void update_sgd(const ParameterPiece<T>& piece, const SgdOptions& o) {
  kernels::sgd(piece, {o.momentum, o.dampening, o.nesterov});
}

template <class T>
void update_rmsprop(const ParameterPiece<T>& piece, const RmsPropOptions& o) {
  kernels::rmsprop(piece, {o.alpha, o.eps, o.momentum, o.centered});
}

}  // namespace

AdamW::AdamW(const ParameterGroups& groups, const AdamWOptions& o)
    : Optimizer("AdamW", groups, o.lr, o.weight_decay, {"exp_avg", "exp_avg_sq"}), options_(o) {
  check_betas("AdamW", o.beta1, o.beta2, o.eps);
}
void AdamW::update(const ParameterPiece<float>& p) const { update_adam(p, options_, true); }
void AdamW::update(const ParameterPiece<double>& p) const { update_adam(p, options_, true); }

Adam::Adam(const ParameterGroups& groups, const AdamOptions& o)
    : Optimizer("Adam", groups, o.lr, o.weight_decay, {"exp_avg", "exp_avg_sq"}), options_(o) {
  check_betas("Adam", o.beta1, o.beta2, o.eps);
}
void Adam::update(const ParameterPiece<float>& p) const { update_adam(p, options_, false); }
void Adam::update(const ParameterPiece<double>& p) const { update_adam(p, options_, false); }

Sgd::Sgd(const ParameterGroups& groups, const SgdOptions& o)
    : Optimizer("Sgd", groups, o.lr, o.weight_decay, sgd_state(o)), options_(o) {
  check(!o.nesterov || (o.momentum > 0 && o.dampening == 0),
        "Sgd: Nesterov needs momentum and no dampening; they are {} and {}", o.momentum,
        o.dampening);
}
void Sgd::update(const ParameterPiece<float>& p) const { update_sgd(p, options_); }
void Sgd::update(const ParameterPiece<double>& p) const { update_sgd(p, options_); }

RmsProp::RmsProp(const ParameterGroups& groups, const RmsPropOptions& o)
    : Optimizer("RmsProp", groups, o.lr, o.weight_decay, rmsprop_state(o)), options_(o) {}
void RmsProp::update(const ParameterPiece<float>& p) const { update_rmsprop(p, options_); }
void RmsProp::update(const ParameterPiece<double>& p) const { update_rmsprop(p, options_); }

Adadelta::Adadelta(const ParameterGroups& groups, const AdadeltaOptions& o)
    : Optimizer("Adadelta", groups, o.lr, o.weight_decay, {"square_avg", "acc_delta"}),
      options_(o) {}
void Adadelta::update(const ParameterPiece<float>& p) const {
  kernels::adadelta(p, {options_.rho, options_.eps});
}
void Adadelta::update(const ParameterPiece<double>& p) const {
  kernels::adadelta(p, {options_.rho, options_.eps});
}

}  // namespace tern::optim
