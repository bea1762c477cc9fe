// The update of Lion in one vectorized loop; a check of its betas.
#include "tern/optim/lion.h"

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"
#include "tern/optim/betas.h"

namespace tern::optim {

void LionOptions::validate() const {
  check(beta1 >= 0 && beta1 < 1 && beta2 >= 0 && beta2 < 1,
        "Lion: betas must lie in [0, 1), they are {} and {}", beta1, beta2);
}

template <class T>
void LionOptions::update(const Piece<T>& piece) const {
  const T rate = T(piece.lr), keep = T(1 - piece.lr * piece.weight_decay);
  const T w1 = T(1 - beta1), w2 = T(1 - beta2);
  simd([=, p = piece.parameter, grad = piece.gradient, m = piece.state[0], n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      T g = grad[i], c = averaged(m[i], g, w1);
      T sign = c > 0 ? T(1) : c < 0 ? T(-1) : c;  // 0 and NaN stay
      p[i] = keep * p[i] - rate * sign;
      m[i] = averaged(m[i], g, w2);
    }
  });
}

template void LionOptions::update(const Piece<float>&) const;
template void LionOptions::update(const Piece<double>&) const;
template class OptimizerOf<LionOptions>;

}  // namespace tern::optim
