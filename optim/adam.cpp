// The update of Adam and AdamW, which differ in the weight decay.
#include "tern/optim/adam.h"

#include <cmath>

#include "tern/optim/betas.h"

namespace tern::optim {
namespace {

// p -= lr / (1-b1^t) * m / (sqrt(v / (1-b2^t)) + eps).
template <class T>
void update_adam(const Piece<T>& piece, const auto& c, bool decoupled) {
  const auto t = static_cast<double>(piece.step);
  const T size = T(piece.lr / (1 - std::pow(c.beta1, t)));
  const T root = T(1 / std::sqrt(1 - std::pow(c.beta2, t)));
  with_moments(piece, c, decoupled,
               [=, eps = T(c.eps)](T, T m, T v) { return size * m / (std::sqrt(v) * root + eps); });
}

}  // namespace

void AdamWOptions::validate() const { check_betas(name, beta1, beta2, eps); }

template <class T>
void AdamWOptions::update(const Piece<T>& piece) const {
  update_adam(piece, *this, true);
}

void AdamOptions::validate() const { check_betas(name, beta1, beta2, eps); }

template <class T>
void AdamOptions::update(const Piece<T>& piece) const {
  update_adam(piece, *this, false);
}

template void AdamWOptions::update(const Piece<float>&) const;
template void AdamWOptions::update(const Piece<double>&) const;
template void AdamOptions::update(const Piece<float>&) const;
template void AdamOptions::update(const Piece<double>&) const;

template class OptimizerOf<AdamWOptions>;
template class OptimizerOf<AdamOptions>;

}  // namespace tern::optim
