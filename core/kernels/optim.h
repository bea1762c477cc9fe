// One step of each optimizer on a piece of one parameter, and the sums that clipping needs. All
// arrays are contiguous and do not overlap; T is float or double. Threads: the callers'.
// Inside of core only.
#pragma once

#include <array>
#include <cstdint>

namespace tern::kernels {

/// A piece of a parameter with its gradient and the optimizer's state (as many as it has).
template <class T>
struct ParameterPiece {
  T* parameter;
  const T* gradient;
  std::array<T*, 3> state;
  int64_t count;
  double lr, weight_decay;
  int64_t step;  ///< of this parameter, from 1
};

struct AdamConstants {
  double beta1, beta2, eps;
  bool decoupled;  ///< weight decay acts on the parameter (AdamW), not through the gradient
};
/// state: m, v. m = lerp(m, g, 1-b1); v = b2 v + (1-b2) g^2;
/// p -= lr / (1-b1^t) * m / (sqrt(v / (1-b2^t)) + eps).
template <class T>
void adam(const ParameterPiece<T>& piece, const AdamConstants& c);

struct SgdConstants {
  double momentum, dampening;
  bool nesterov;
};
/// state: b, if there is momentum. b = momentum b + (1-dampening) g, g at first;
/// p -= lr * (nesterov ? g + momentum b : b).
template <class T>
void sgd(const ParameterPiece<T>& piece, const SgdConstants& c);

struct RmsPropConstants {
  double alpha, eps, momentum;
  bool centered;
};
/// state: v, then the mean gradient if centred, then b if there is momentum.
/// v = alpha v + (1-alpha) g^2; p -= lr * g / (sqrt(v - mean^2) + eps).
template <class T>
void rmsprop(const ParameterPiece<T>& piece, const RmsPropConstants& c);

struct AdadeltaConstants {
  double rho, eps;
};
/// state: v, a. v = rho v + (1-rho) g^2; d = sqrt(a + eps) / sqrt(v + eps) * g;
/// a = rho a + (1-rho) d^2; p -= lr d.
template <class T>
void adadelta(const ParameterPiece<T>& piece, const AdadeltaConstants& c);

/// average = average + (1-decay) * (x - average).
template <class T>
void average(T* average, const T* x, int64_t n, double decay);

/// Sum of squares, added in double precision in an order that depends on n alone.
template <class T>
double sum_squares(const T* x, int64_t n);
/// Largest absolute value; NaN if there is one.
template <class T>
double max_abs(const T* x, int64_t n);
template <class T>
void scale(T* x, int64_t n, double factor);
/// Into [-bound, bound]; NaN stays.
template <class T>
void clamp(T* x, int64_t n, double bound);

}  // namespace tern::kernels
