// The update of Adam and AdamW: one vectorized loop for both, which differ in the weight decay.
#include "tern/optim/adam.h"

#include <cmath>

#include "tern/core/base/simd.h"
#include "tern/optim/betas.h"

namespace tern::optim {
namespace {

// m = lerp(m, g, 1-b1); v = b2 v + (1-b2) g^2;
// p -= lr / (1-b1^t) * m / (sqrt(v / (1-b2^t)) + eps).
// decoupled: weight decay acts on the parameter (AdamW), not through the gradient.
template <class T>
void update_adam(const Piece<T>& piece, const auto& c, bool decoupled) {
  const auto t = static_cast<double>(piece.step);
  const T keep = decoupled ? T(1 - piece.lr * piece.weight_decay) : T(1);
  const T decay = decoupled ? T(0) : T(piece.weight_decay);
  const T w1 = T(1 - c.beta1), b2 = T(c.beta2), w2 = T(1 - c.beta2), eps = T(c.eps);
  const T size = T(piece.lr / (1 - std::pow(c.beta1, t)));
  const T root = T(1 / std::sqrt(1 - std::pow(c.beta2, t)));
  forget_all_if_0(b2, piece.state[1], piece.count);
  simd([=, p = piece.parameter, grad = piece.gradient, m = piece.state[0], v = piece.state[1],
        n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      T g = grad[i] + decay * p[i];
      T mi = averaged(m[i], g, w1);
      T vi = b2 * v[i] + w2 * g * g;
      m[i] = mi;
      v[i] = vi;
      p[i] = keep * p[i] - size * mi / (std::sqrt(vi) * root + eps);
    }
  });
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
