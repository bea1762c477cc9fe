// Muon: the Newton-Schulz iterations, written in ops, and the update; the optimizer that uses Muon
// for some groups and AdamW for others; and the choice of the parameters for each.
#include "tern/optim/muon.h"

#include <algorithm>
#include <cmath>

#include "tern/core/base/error.h"
#include "tern/core/base/simd.h"
#include "tern/core/ops/ops.h"
#include "tern/optim/betas.h"

namespace tern::optim {
namespace {

// A matrix, or the weight of a Conv2d or Conv3d.
bool is_matrix_or_conv(const Shape& shape) {
  return shape.size() == 2 || shape.size() == 4 || shape.size() == 5;
}

double factor_of(MuonRate rate, const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]);
  const auto cols = static_cast<double>(numel(shape)) / rows;
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

// averaged() of betas.h, for tensors.
Tensor moved_toward(const Tensor& m, const Tensor& x, double w) {
  return w == 1 ? x : m + (x - m) * w;
}

}  // namespace

void MuonOptions::validate() const {
  check(momentum >= 0 && momentum <= 1, "Muon: the momentum must lie in [0, 1], it is {}",
        momentum);
  check(ns_steps >= 0 && ns_steps < 100, "Muon: ns_steps must lie in [0, 100), it is {}", ns_steps);
  check(eps > 0, "Muon: eps must be positive, it is {}", eps);
  check(rate >= MuonRate::original && rate <= MuonRate::spectral_unclamped,
        "Muon: the rate must be a MuonRate, it is {}", static_cast<int>(rate));
}

std::string MuonOptions::refuses(const Shape& parameter) const {
  if (is_matrix_or_conv(parameter)) return {};
  return "it is neither a matrix (rows, cols) nor the weight of a Conv2d or Conv3d; give it to "
         "another optimizer, such as AdamW";
}

Tensor MuonOptions::direction(const Tensor& gradient, const std::vector<Tensor>& state) const {
  if (gradient.numel() == 0) return gradient;
  const Tensor& buffer = state[0];
  Tensor x = moved_toward(buffer, gradient, 1 - momentum);
  if (nesterov) x = moved_toward(gradient, x, momentum);
  x = flatten(x, 1);
  const bool tall = x.size(0) > x.size(1);
  if (tall) x = transpose(x, 0, 1);
  x = x / maximum(norm(x), eps);
  const auto [a, b, c] = ns_coefficients;
  for (int step = 0; step < ns_steps; ++step) {
    Tensor gram = matmul(x, transpose(x, 0, 1));
    x = x * a + matmul(gram * b + matmul(gram, gram) * c, x);
  }
  return reshape(tall ? transpose(x, 0, 1) : x, gradient.shape());
}

template <class T>
void MuonOptions::update(const Piece<T>& piece) const {
  const T keep = T(1 - piece.lr * piece.weight_decay), w = T(1 - momentum);
  const T size = T(piece.lr * factor_of(rate, *piece.shape));
  simd([=, p = piece.parameter, g = piece.gradient, m = piece.state[0], d = piece.direction,
        n = piece.count] {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      m[i] = averaged(m[i], g[i], w);
      p[i] = keep * p[i] - size * d[i];
    }
  });
}

template void MuonOptions::update(const Piece<float>&) const;
template void MuonOptions::update(const Piece<double>&) const;
template class OptimizerOf<MuonOptions>;

void MuonOrAdamWOptions::validate() const {
  std::visit([](const auto& r) { r.validate(); }, rule);
  const auto* adamw = std::get_if<AdamWOptions>(&rule);
  check(!adamw || adamw->state_bits == 32, "MuonWithAdamW: the state must have 32 bits, it has {}",
        adamw ? adamw->state_bits : 32);
}

std::vector<const char*> MuonOrAdamWOptions::state_names() const {
  return std::visit(
      [](const auto& r) {
        return std::vector<const char*>(r.state_names.begin(), r.state_names.end());
      },
      rule);
}

std::string MuonOrAdamWOptions::refuses(const Shape& parameter) const {
  const auto* muon = std::get_if<MuonOptions>(&rule);
  return muon ? muon->refuses(parameter) : std::string();
}

Tensor MuonOrAdamWOptions::direction(const Tensor& gradient,
                                     const std::vector<Tensor>& state) const {
  const auto* muon = std::get_if<MuonOptions>(&rule);
  return muon ? muon->direction(gradient, state) : Tensor();
}

template <class T>
void MuonOrAdamWOptions::update(const Piece<T>& piece) const {
  std::visit([&](const auto& r) { r.update(piece); }, rule);
}

MuonParameters muon_parameters(const NamedTensors& parameters) {
  // One row or column is a vector, such as the lengths of a WeightNorm. (C, 1, h, w) is depthwise.
  auto takes = [](const Tensor& t) {
    return is_matrix_or_conv(t.shape()) && t.size(0) != 1 && t.size(1) != 1;
  };
  auto in_list = [](const std::string& name) {
    std::vector<std::string> parts(1);
    for (const char c : name)
      if (c == '.')
        parts.emplace_back();
      else
        parts.back() += c;
    for (size_t i = 0; i + 2 < parts.size(); ++i)
      if (!parts[i].empty() && parts[i].find_first_not_of("0123456789") == std::string::npos)
        return true;
    return false;
  };
  MuonParameters p;
  for (const auto& named : parameters)
    (takes(named.second) && in_list(named.first) ? p.hidden : p.others).push_back(named);
  return p;
}

template void MuonOrAdamWOptions::update(const Piece<float>&) const;
template void MuonOrAdamWOptions::update(const Piece<double>&) const;
template class OptimizerOf<MuonOrAdamWOptions>;

}  // namespace tern::optim
