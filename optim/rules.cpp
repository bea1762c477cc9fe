// The arithmetic of the optimizers: a step on a piece of one parameter.
#include <cmath>
#include <limits>

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"
#include "tern/optim/betas.h"
#include "tern/optim/optimizer.h"

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

/// v - mean^2, which rounding makes negative where gradients hardly change; infinite where v is.
template <class T>
[[gnu::always_inline]] inline T variance(T v, T mean) {
  const T square = v - mean * mean;
  const T least = square < T(0) ? T(0) : square;
  return v == std::numeric_limits<T>::infinity() ? v : least;
}

// v = alpha v + (1-alpha) g^2; p -= lr * g / (sqrt(v - mean^2) + eps).
template <bool centered, bool with_momentum, class T>
void update_rmsprop(const Piece<T>& piece, const RmsPropOptions& c) {
  const T lr = T(piece.lr), decay = T(piece.weight_decay), alpha = T(c.alpha);
  const T w = T(1 - c.alpha), eps = T(c.eps), momentum = T(c.momentum);
  forget_all_if_0(alpha, piece.state[0], piece.count);
  T* v = piece.state[0];
  T* mean = piece.state[1];
  T* b = piece.state[centered ? 2 : 1];
  simd([=, p = piece.parameter, grad = piece.gradient, n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      T g = grad[i] + decay * p[i];
      T vi = alpha * v[i] + w * g * g, square = vi;
      v[i] = vi;
      if constexpr (centered) {
        T mi = averaged(mean[i], g, w);
        mean[i] = mi;
        square = variance(vi, mi);
      }
      T d = g / (std::sqrt(square) + eps);
      if constexpr (with_momentum) {
        d = momentum * b[i] + d;
        b[i] = d;
      }
      p[i] -= lr * d;
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

std::vector<const char*> SgdOptions::state_names() const {
  if (momentum == 0) return {};
  return {"momentum_buffer"};
}

void SgdOptions::validate() const {
  check(momentum >= 0, "Sgd: the momentum must not be negative, it is {}", momentum);
  check(!nesterov || (momentum > 0 && dampening == 0),
        "Sgd: Nesterov needs momentum and no dampening; they are {} and {}", momentum, dampening);
}

// b = momentum b + (1-dampening) g, g at first; p -= lr * (nesterov ? g + momentum b : b).
template <class T>
void SgdOptions::update(const Piece<T>& piece) const {
  const T lr = T(piece.lr), decay = T(piece.weight_decay), factor = T(momentum);
  // The first step takes the gradient as it is, without dampening.
  const T fresh = piece.step == 1 ? T(1) : T(1 - dampening);
  const T old = piece.step == 1 ? T(0) : factor;
  T* b = piece.state[0];
  if (momentum == 0) {
    simd([=, p = piece.parameter, grad = piece.gradient, n = piece.count] {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) p[i] -= lr * (grad[i] + decay * p[i]);
    });
    return;
  }
  simd([=, ahead = nesterov, p = piece.parameter, grad = piece.gradient, n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      T g = grad[i] + decay * p[i];
      T bi = old * b[i] + fresh * g;
      b[i] = bi;
      p[i] -= lr * (ahead ? g + factor * bi : bi);
    }
  });
}

std::vector<const char*> RmsPropOptions::state_names() const {
  std::vector<const char*> names = {"square_avg"};
  if (centered) names.push_back("grad_avg");
  if (momentum != 0) names.push_back("momentum_buffer");
  return names;
}

void RmsPropOptions::validate() const {
  check(alpha >= 0 && alpha <= 1 && eps >= 0 && momentum >= 0,
        "RmsProp: alpha must lie in [0, 1], eps and momentum must not be negative; they are {}, {} "
        "and {}",
        alpha, eps, momentum);
}

template <class T>
void RmsPropOptions::update(const Piece<T>& piece) const {
  if (centered)
    momentum != 0 ? update_rmsprop<true, true>(piece, *this)
                  : update_rmsprop<true, false>(piece, *this);
  else
    momentum != 0 ? update_rmsprop<false, true>(piece, *this)
                  : update_rmsprop<false, false>(piece, *this);
}

void AdadeltaOptions::validate() const {
  check(rho >= 0 && rho <= 1, "Adadelta: rho must lie in [0, 1], it is {}", rho);
  check(eps > 0, "Adadelta: eps must be positive, it is {}: a step is a share of earlier ones",
        eps);
}

// v = rho v + (1-rho) g^2; d = sqrt(a + eps) / sqrt(v + eps) * g; a = rho a + (1-rho) d^2;
// p -= lr d.
template <class T>
void AdadeltaOptions::update(const Piece<T>& piece) const {
  const T lr = T(piece.lr), decay = T(piece.weight_decay), keep = T(rho), w = T(1 - rho);
  forget_all_if_0(keep, piece.state[0], piece.count);
  simd([=, e = T(eps), p = piece.parameter, grad = piece.gradient, v = piece.state[0],
        a = piece.state[1], n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      T g = grad[i] + decay * p[i];
      T vi = keep * v[i] + w * g * g;
      T d = std::sqrt(a[i] + e) / std::sqrt(vi + e) * g;
      v[i] = vi;
      a[i] = keep * a[i] + w * d * d;
      p[i] -= lr * d;
    }
  });
}

template void AdamWOptions::update(const Piece<float>&) const;
template void AdamWOptions::update(const Piece<double>&) const;
template void AdamOptions::update(const Piece<float>&) const;
template void AdamOptions::update(const Piece<double>&) const;
template void SgdOptions::update(const Piece<float>&) const;
template void SgdOptions::update(const Piece<double>&) const;
template void RmsPropOptions::update(const Piece<float>&) const;
template void RmsPropOptions::update(const Piece<double>&) const;
template void AdadeltaOptions::update(const Piece<float>&) const;
template void AdadeltaOptions::update(const Piece<double>&) const;

template class OptimizerOf<AdamWOptions>;
template class OptimizerOf<AdamOptions>;
template class OptimizerOf<SgdOptions>;
template class OptimizerOf<RmsPropOptions>;
template class OptimizerOf<AdadeltaOptions>;

}  // namespace tern::optim
