// The update of SGD: one loop without momentum, one with momentum (Nesterov's or plain).
#include "tern/optim/sgd.h"

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"

namespace tern::optim {

std::vector<const char*> SgdOptions::state_names() const {
  if (momentum == 0) return {};
  return {"momentum_buffer"};
}

void SgdOptions::validate() const {
  check(momentum >= 0, "Sgd: the momentum must not be negative, it is {}", momentum);
  check(!nesterov || (momentum > 0 && dampening == 0),
        "Sgd: Nesterov needs momentum and no dampening; they are {} and {}", momentum, dampening);
}

// b = momentum b + (1-dampening) g, p -= lr * (nesterov ? g + momentum b : b). In the first step
// b = g.
template <class T>
void SgdOptions::update(const Piece<T>& piece) const {
  const T lr = T(piece.lr), decay = T(piece.weight_decay), factor = T(momentum);
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

template void SgdOptions::update(const Piece<float>&) const;
template void SgdOptions::update(const Piece<double>&) const;

template class OptimizerOf<SgdOptions>;

}  // namespace tern::optim
