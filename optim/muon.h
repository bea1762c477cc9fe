// Muon: momentum made orthogonal by Newton-Schulz iterations (Jordan et al. 2024,
// https://kellerjordan.github.io/posts/muon), for the matrices of hidden layers; embeddings, heads,
// biases and norms go to AdamW. Definition, defaults and names of the state are torch.optim's,
// except that the iterations are computed in the parameter's type rather than in bfloat16.
#pragma once

#include "tern/optim/optimizer.h"

namespace tern::optim {

/// What the rate of a matrix (rows, cols) is multiplied by.
enum class MuonRate {
  original,            ///< sqrt(max(1, rows / cols))
  match_rms_adamw,     ///< 0.2 sqrt(max(rows, cols)): rates of AdamW fit (Liu et al. 2025)
  spectral_unclamped,  ///< sqrt(rows / cols)
};

/// Takes matrices alone; an Error names a parameter that is none.
struct MuonOptions {
  double lr = 1e-3, weight_decay = 0.1, momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.775, 2.0315};
  double eps = 1e-7;  ///< least norm that the momentum is divided by
  int ns_steps = 5;
  MuonRate rate = MuonRate::original;
  static constexpr const char* name = "Muon";
  static constexpr std::array state_names = {"momentum_buffer"};
  void validate() const;
  std::string refuses(const Shape& parameter) const;
  /// X / |X|, then ns_steps times X <- a X + (b X X^T + c (X X^T)^2) X, of the new momentum.
  Tensor direction(const Tensor& gradient, const std::vector<Tensor>& state) const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Muon = OptimizerOf<MuonOptions>;

extern template class OptimizerOf<MuonOptions>;

}  // namespace tern::optim
