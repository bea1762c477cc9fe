// The updates of NAdam, RAdam and LAMB. All three move both moments in one loop (with_moments of
// betas.h).
#include "tern/optim/adam_family.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"
#include "tern/optim/betas.h"

namespace tern::optim {

std::vector<StateTensor> NAdamOptions::states(const Shape& parameter) const {
  return {{"exp_avg", parameter}, {"exp_avg_sq", parameter}, {"mu_product", {}}};
}

void NAdamOptions::validate() const {
  check_betas(name, beta1, beta2, eps);
  check(momentum_decay >= 0, "NAdam: momentum_decay must not be negative, it is {}",
        momentum_decay);
}

double NAdamOptions::momentum(int64_t step) const {
  return beta1 * (1 - 0.5 * std::pow(0.96, static_cast<double>(step) * momentum_decay));
}

template <class T>
void NAdamOptions::begin(const Piece<T>& whole) const {
  T& product = whole.state[2][0];
  product = (whole.step == 1 ? T(1) : product) * T(momentum(whole.step));
}

// p -= lr ((1 - mu) / (1 - prod) g + mu' / (1 - prod mu') m) / (sqrt(v / (1 - b2^t)) + eps),
// where mu' is the next step's momentum and prod the product of the momenta so far.
template <class T>
void NAdamOptions::update(const Piece<T>& piece) const {
  const auto t = static_cast<double>(piece.step);
  const double mu = momentum(piece.step), next = momentum(piece.step + 1);
  const auto product = static_cast<double>(piece.state[2][0]);
  const T of_g = T(piece.lr * (1 - mu) / (1 - product));
  const T of_m = T(piece.lr * next / (1 - product * next));
  const T root = T(1 / std::sqrt(1 - std::pow(beta2, t))), e = T(eps);
  with_moments(piece, *this, decoupled_weight_decay,
               [=](T g, T m, T v) { return (of_g * g + of_m * m) / (std::sqrt(v) * root + e); });
}

void RAdamOptions::validate() const { check_betas(name, beta1, beta2, eps); }

// rho_t = rho - 2 t b2^t / (1 - b2^t) with rho = 2 / (1 - b2) - 1. If rho_t > 5, the step is Adam's
// times sqrt((rho_t - 4) (rho_t - 2) rho / ((rho - 4) (rho - 2) rho_t)), else only the momentum.
template <class T>
void RAdamOptions::update(const Piece<T>& piece) const {
  const auto t = static_cast<double>(piece.step);
  const double left2 = std::pow(beta2, t), correction2 = 1 - left2;
  const double rho = 2 / (1 - beta2) - 1, rho_t = rho - 2 * t * left2 / correction2;
  double size = piece.lr / (1 - std::pow(beta1, t));
  if (rho_t <= 5) {
    with_moments(piece, *this, decoupled_weight_decay,
                 [size = T(size)](T, T m, T) { return size * m; });
    return;
  }
  size *= std::sqrt((rho_t - 4) * (rho_t - 2) * rho / ((rho - 4) * (rho - 2) * rho_t)) *
          std::sqrt(correction2);
  with_moments(piece, *this, decoupled_weight_decay,
               [size = T(size), e = T(eps)](T, T m, T v) { return size * m / (std::sqrt(v) + e); });
}

void LambOptions::validate() const { check_betas(name, beta1, beta2, eps); }

template <class T>
void LambOptions::update(const Piece<T>& piece) const {
  const auto t = static_cast<double>(piece.step);
  const T scale = T(bias_correction ? 1 / (1 - std::pow(beta1, t)) : 1);
  const T root = T(bias_correction ? 1 / std::sqrt(1 - std::pow(beta2, t)) : 1);
  const T decay = T(piece.weight_decay), e = T(eps);
  const T *m = piece.state[0], *v = piece.state[1];
  T* p = piece.parameter;
  // The root is 0 where the square was too small for the type. Dividing by it would make that
  // element infinite and the ratio 0, and their product NaN: such an element counts as 0.
  auto direction = [=](int64_t i) __attribute__((always_inline)) {
    const T below = std::sqrt(v[i]) * root + e;
    return scale * m[i] / (below > T(0) ? below : std::numeric_limits<T>::infinity()) +
           decay * p[i];
  };
  // Moves both moments; the parameter stays until the ratio is known.
  with_moments(Piece<T>{piece.parameter, piece.gradient, piece.state, piece.count, 0, 0, 1}, *this,
               false, [](T, T, T) { return T(0); });
  double of_p = 0, of_r = 0;
  double ratio = 1;
  if (piece.weight_decay != 0 || always_adapt) {
    for (int64_t i = 0; i < piece.count; ++i) {
      const auto x = static_cast<double>(p[i]), r = static_cast<double>(direction(i));
      of_p += x * x;
      of_r += r * r;
    }
    if (of_p > 0 && of_r > 0) ratio = std::sqrt(of_p / of_r);
    if (trust_clip) ratio = std::min(ratio, 1.0);
  }
  const T size = T(piece.lr * ratio);
  simd([=, n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) p[i] -= size * direction(i);
  });
}

template void NAdamOptions::begin(const Piece<float>&) const;
template void NAdamOptions::begin(const Piece<double>&) const;
template void NAdamOptions::update(const Piece<float>&) const;
template void NAdamOptions::update(const Piece<double>&) const;
template void RAdamOptions::update(const Piece<float>&) const;
template void RAdamOptions::update(const Piece<double>&) const;
template void LambOptions::update(const Piece<float>&) const;
template void LambOptions::update(const Piece<double>&) const;

template class OptimizerOf<NAdamOptions>;
template class OptimizerOf<RAdamOptions>;
template class OptimizerOf<LambOptions>;

}  // namespace tern::optim
