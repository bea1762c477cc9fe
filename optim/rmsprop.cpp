// The updates of RMSprop (centered or not, with or without momentum) and Adadelta.
#include "tern/optim/rmsprop.h"

#include <cmath>
#include <limits>

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"
#include "tern/optim/betas.h"

namespace tern::optim {
namespace {

/// v - mean^2, but at least 0: rounding makes it negative if gradients hardly change. Infinite if v
/// is infinite.
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
  check(eps > 0, "Adadelta: eps must be positive, it is {}; with eps = 0 every step would be 0",
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

template void RmsPropOptions::update(const Piece<float>&) const;
template void RmsPropOptions::update(const Piece<double>&) const;
template void AdadeltaOptions::update(const Piece<float>&) const;
template void AdadeltaOptions::update(const Piece<double>&) const;

template class OptimizerOf<RmsPropOptions>;
template class OptimizerOf<AdadeltaOptions>;

}  // namespace tern::optim
