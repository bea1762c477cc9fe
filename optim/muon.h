// Muon: Newton-Schulz iterations make the momentum orthogonal (Jordan et al. 2024,
// https://kellerjordan.github.io/posts/muon). It is for the matrices and convolutions of hidden
// layers; embeddings, heads, biases and norms go to AdamW. Definition, defaults and the names of
// the state are those of torch.optim, except that the iterations run in the parameter's type, not
// in bfloat16; only their products follow the MatmulPrecision in use. torch.optim takes no
// convolutions: here, as in Jordan's program for CIFAR-10, the weight (out, in, h, w) of one counts
// as the matrix (out, in h w).
#pragma once

#include <utility>
#include <variant>

#include "tern/optim/adam.h"

namespace tern::optim {

/// The factor of the learning rate for a matrix (rows, cols).
enum class MuonRate {
  original,            ///< sqrt(max(1, rows / cols))
  match_rms_adamw,     ///< 0.2 sqrt(max(rows, cols)): AdamW's rates fit (Liu et al. 2025)
  spectral_unclamped,  ///< sqrt(rows / cols)
};

/// Takes matrices, and weights of Conv2d and Conv3d; an Error names any other parameter.
struct MuonOptions {
  double lr = 1e-3, weight_decay = 0.1, momentum = 0.95;
  bool nesterov = true;
  std::array<double, 3> ns_coefficients = {3.4445, -4.775, 2.0315};
  double eps = 1e-7;  ///< lower bound of the norm that divides the momentum
  int ns_steps = 5;
  MuonRate rate = MuonRate::original;
  static constexpr const char* name = "Muon";
  static constexpr std::array state_names = {"momentum_buffer"};
  static void settings(auto& o, auto&& visit) {
    visit("momentum", o.momentum), visit("nesterov", o.nesterov), visit("eps", o.eps);
    visit("ns_coefficients.0", o.ns_coefficients[0]);
    visit("ns_coefficients.1", o.ns_coefficients[1]);
    visit("ns_coefficients.2", o.ns_coefficients[2]);
    visit("ns_steps", o.ns_steps), visit("rate", o.rate);
  }
  void validate() const;
  std::string refuses(const Shape& parameter) const;
  /// Starts with X = M / |M| of the new momentum M, then repeats ns_steps times
  /// X <- a X + (b X X^T + c (X X^T)^2) X.
  Tensor direction(const Tensor& gradient, const std::vector<Tensor>& state) const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using Muon = OptimizerOf<MuonOptions>;

/// Muon for some groups and AdamW for others, as one optimizer with one schedule and one state:
///
///   optim::MuonParameters p = optim::muon_parameters(nn::named_parameters(model));
///   optim::MuonWithAdamW optimizer(std::vector<optim::MuonWithAdamW::Group>{
///       {p.hidden, optim::MuonOptions{.lr = 3e-3, .rate = optim::MuonRate::match_rms_adamw}},
///       {p.others, optim::AdamWOptions{.lr = 5e-4}}});
struct MuonOrAdamWOptions {
  std::variant<MuonOptions, AdamWOptions> rule;
  double lr, weight_decay;  ///< the rule's
  static constexpr const char* name = "MuonWithAdamW";

  MuonOrAdamWOptions(const MuonOptions& options = {})  // NOLINT: implicit on purpose
      : rule(options), lr(options.lr), weight_decay(options.weight_decay) {}
  MuonOrAdamWOptions(const AdamWOptions& options)  // NOLINT
      : rule(options), lr(options.lr), weight_decay(options.weight_decay) {}
  static void settings(auto& o, auto&& visit) {
    std::visit([&](auto& r) { r.settings(r, visit); }, o.rule);
  }
  const char* rule_name() const {
    return std::visit([](const auto& r) { return r.name; }, rule);
  }
  void validate() const;
  std::vector<const char*> state_names() const;
  std::string refuses(const Shape& parameter) const;
  Tensor direction(const Tensor& gradient, const std::vector<Tensor>& state) const;
  template <class T>
  void update(const Piece<T>& piece) const;
};
using MuonWithAdamW = OptimizerOf<MuonOrAdamWOptions>;

/// Parameters as Muon's authors divide them: matrices and convolutions of hidden layers, and the
/// others (embeddings, the head, biases, norms).
struct MuonParameters {
  NamedTensors hidden, others;
};
/// A layer is hidden if it is in a list of blocks: a part of its name is a number, with two or more
/// parts after it, as in "blocks.3.attn.qkv.weight". Depthwise convolutions (C, 1, h, w) are among
/// the others: each of their rows reads a channel of its own.
MuonParameters muon_parameters(const NamedTensors& parameters);

extern template class OptimizerOf<MuonOptions>;
extern template class OptimizerOf<MuonOrAdamWOptions>;

}  // namespace tern::optim
