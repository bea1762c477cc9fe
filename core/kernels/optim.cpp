#include "tern/core/kernels/optim.h"

#include <cmath>
#include <limits>

#include "tern/core/base/simd.h"

namespace tern::kernels {

template <class T>
void adam(const ParameterPiece<T>& piece, const AdamConstants& c) {
  const auto t = static_cast<double>(piece.step);
  const T keep = c.decoupled ? T(1 - piece.lr * piece.weight_decay) : T(1);
  const T decay = c.decoupled ? T(0) : T(piece.weight_decay);
  const T w1 = T(1 - c.beta1), b2 = T(c.beta2), w2 = T(1 - c.beta2), eps = T(c.eps);
  const T size = T(piece.lr / (1 - std::pow(c.beta1, t)));
  const T root = T(1 / std::sqrt(1 - std::pow(c.beta2, t)));
  simd([=, p = piece.parameter, grad = piece.gradient, m = piece.state[0], v = piece.state[1],
        n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      T g = grad[i] + decay * p[i];
      T mi = m[i] + w1 * (g - m[i]);
      T vi = b2 * v[i] + w2 * g * g;
      m[i] = mi;
      v[i] = vi;
      p[i] = keep * p[i] - size * mi / (std::sqrt(vi) * root + eps);
    }
  });
}

template <class T>
void sgd(const ParameterPiece<T>& piece, const SgdConstants& c) {
  const T lr = T(piece.lr), decay = T(piece.weight_decay), momentum = T(c.momentum);
  // The first step takes the gradient as it is, without dampening.
  const T fresh = piece.step == 1 ? T(1) : T(1 - c.dampening);
  const T old = piece.step == 1 ? T(0) : momentum;
  const bool nesterov = c.nesterov;
  T* b = piece.state[0];
  if (c.momentum == 0) {
    simd([=, p = piece.parameter, grad = piece.gradient, n = piece.count] {
#pragma omp simd
      for (int64_t i = 0; i < n; ++i) p[i] -= lr * (grad[i] + decay * p[i]);
    });
    return;
  }
  simd([=, p = piece.parameter, grad = piece.gradient, n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      T g = grad[i] + decay * p[i];
      T bi = old * b[i] + fresh * g;
      b[i] = bi;
      p[i] -= lr * (nesterov ? g + momentum * bi : bi);
    }
  });
}

namespace {

template <bool centered, bool with_momentum, class T>
void rmsprop_loop(const ParameterPiece<T>& piece, const RmsPropConstants& c) {
  const T lr = T(piece.lr), decay = T(piece.weight_decay), alpha = T(c.alpha);
  const T w = T(1 - c.alpha), eps = T(c.eps), momentum = T(c.momentum);
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
        T mi = mean[i] + w * (g - mean[i]);
        mean[i] = mi;
        square = vi - mi * mi;
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

template <class T>
void rmsprop(const ParameterPiece<T>& piece, const RmsPropConstants& c) {
  if (c.centered)
    c.momentum != 0 ? rmsprop_loop<true, true>(piece, c) : rmsprop_loop<true, false>(piece, c);
  else
    c.momentum != 0 ? rmsprop_loop<false, true>(piece, c) : rmsprop_loop<false, false>(piece, c);
}

template <class T>
void adadelta(const ParameterPiece<T>& piece, const AdadeltaConstants& c) {
  const T lr = T(piece.lr), decay = T(piece.weight_decay), rho = T(c.rho), w = T(1 - c.rho);
  const T eps = T(c.eps);
  simd([=, p = piece.parameter, grad = piece.gradient, v = piece.state[0], a = piece.state[1],
        n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      T g = grad[i] + decay * p[i];
      T vi = rho * v[i] + w * g * g;
      T d = std::sqrt(a[i] + eps) / std::sqrt(vi + eps) * g;
      v[i] = vi;
      a[i] = rho * a[i] + w * d * d;
      p[i] -= lr * d;
    }
  });
}

template <class T>
void average(T* average, const T* x, int64_t n, double decay) {
  const T w = T(1 - decay);
  simd([=] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) average[i] += w * (x[i] - average[i]);
  });
}

template <class T>
double sum_squares(const T* x, int64_t n) {
  // Sixteen sums side by side: the same order whatever the vector unit.
  constexpr int64_t kLanes = 16;
  return simd([=] {
    double lanes[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes)
      for (int64_t k = 0; k < kLanes; ++k)
        lanes[k] += static_cast<double>(x[i + k]) * static_cast<double>(x[i + k]);
    for (int64_t k = 0; i < n; ++i, ++k)
      lanes[k] += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    double sum = 0;
    for (double s : lanes) sum += s;
    return sum;
  });
}

template <class T>
double max_abs(const T* x, int64_t n) {
  return simd([=] {
    T most = 0;
    for (int64_t i = 0; i < n; ++i) {
      T a = std::abs(x[i]);
      if (!(a <= most)) most = a;
      if (a != a) return std::numeric_limits<double>::quiet_NaN();
    }
    return static_cast<double>(most);
  });
}

template <class T>
void scale(T* x, int64_t n, double factor) {
  simd([=, f = T(factor)] {
    for (int64_t i = 0; i < n; ++i) x[i] *= f;
  });
}

template <class T>
void clamp(T* x, int64_t n, double bound) {
  simd([=, b = T(bound)] {
    for (int64_t i = 0; i < n; ++i) {
      T v = x[i];
      v = v > b ? b : v;
      x[i] = v < -b ? -b : v;
    }
  });
}

template void adam(const ParameterPiece<float>&, const AdamConstants&);
template void adam(const ParameterPiece<double>&, const AdamConstants&);
template void sgd(const ParameterPiece<float>&, const SgdConstants&);
template void sgd(const ParameterPiece<double>&, const SgdConstants&);
template void rmsprop(const ParameterPiece<float>&, const RmsPropConstants&);
template void rmsprop(const ParameterPiece<double>&, const RmsPropConstants&);
template void adadelta(const ParameterPiece<float>&, const AdadeltaConstants&);
template void adadelta(const ParameterPiece<double>&, const AdadeltaConstants&);
template void average(float*, const float*, int64_t, double);
template void average(double*, const double*, int64_t, double);
template double sum_squares(const float*, int64_t);
template double sum_squares(const double*, int64_t);
template double max_abs(const float*, int64_t);
template double max_abs(const double*, int64_t);
template void scale(float*, int64_t, double);
template void scale(double*, int64_t, double);
template void clamp(float*, int64_t, double);
template void clamp(double*, int64_t, double);

}  // namespace tern::kernels
