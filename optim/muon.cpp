#include "tern/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"
#include "tern/core/ops/ops.h"

namespace tern::optim {
namespace {

double factor_of(MuonRate rate, const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]), cols = static_cast<double>(shape[1]);
  switch (rate) {
    case MuonRate::original:
      return std::sqrt(std::max(1.0, rows / cols));
    case MuonRate::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(rows, cols));
    case MuonRate::spectral_unclamped:
      return std::sqrt(rows / cols);
  }
  fail_unhandled("MuonRate", rate);
}

}  // namespace

void MuonOptions::validate() const {
  check(momentum >= 0 && momentum <= 1, "Muon: the momentum must lie in [0, 1], it is {}",
        momentum);
  check(ns_steps >= 0 && ns_steps < 100, "Muon: ns_steps must lie in [0, 100), it is {}", ns_steps);
  check(eps > 0, "Muon: eps must be positive, it is {}", eps);
}

std::string MuonOptions::refuses(const Shape& parameter) const {
  if (parameter.size() == 2) return {};
  return "it is no matrix (rows, cols); give it to an optimizer of another kind, as AdamW";
}

Tensor MuonOptions::direction(const Tensor& gradient, const std::vector<Tensor>& state) const {
  if (gradient.numel() == 0) return gradient;
  const Tensor& buffer = state[0];
  Tensor x = buffer + (gradient - buffer) * (1 - momentum);
  if (nesterov) x = gradient + (x - gradient) * momentum;
  const bool tall = x.size(0) > x.size(1);
  if (tall) x = transpose(x, 0, 1);
  x = x / maximum(norm(x), eps);
  const auto [a, b, c] = ns_coefficients;
  for (int step = 0; step < ns_steps; ++step) {
    Tensor gram = matmul(x, transpose(x, 0, 1));
    x = x * a + matmul(gram * b + matmul(gram, gram) * c, x);
  }
  return tall ? transpose(x, 0, 1) : x;
}

template <class T>
void MuonOptions::update(const Piece<T>& piece) const {
  const T keep = T(1 - piece.lr * piece.weight_decay), w = T(1 - momentum);
  const T size = T(piece.lr * factor_of(rate, *piece.shape));
  simd([=, p = piece.parameter, g = piece.gradient, m = piece.state[0], d = piece.direction,
        n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      m[i] = m[i] + w * (g[i] - m[i]);
      p[i] = keep * p[i] - size * d[i];
    }
  });
}

template void MuonOptions::update(const Piece<float>&) const;
template void MuonOptions::update(const Piece<double>&) const;
template class OptimizerOf<MuonOptions>;

}  // namespace tern::optim
