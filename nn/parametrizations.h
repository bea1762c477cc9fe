// Layers whose weight is computed from other parameters, as torch.nn.utils.parametrizations:
//
//   nn::WeightNorm conv(nn::Conv2d(3, 8, 3, rng));            // weight_norm(Conv2d(...))
//   nn::SpectralNorm score(nn::Linear(64, 1, rng), rng);      // spectral_norm(Linear(...))
//   Tensor y = score(conv(x)...);
//   nn::Linear plain = score.merged();                        // remove_parametrizations
//
// State names are PyTorch's (parametrizations.weight.original0 ...), so PyTorch's files load. To be
// wrapped a layer needs a Parameter `weight` and a function with_weight(weight, x) that runs it
// with another weight: Linear, Embedding, the convolutions, or your own. A frozen weight stays
// frozen.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/op.h"
#include "tern/nn/parameter.h"
#include "tern/nn/training_mode.h"

namespace tern::nn {

/// `more` are arguments after x.
template <class L, class... More>
concept TakesWeight = requires(L& layer, const L& constant, const Tensor& t, const More&... more) {
  { layer.weight } -> std::same_as<Parameter&>;
  { constant.with_weight(t, t, more...) } -> std::convertible_to<Tensor>;
};

struct WeightNormOptions {
  /// Slices of the weight along this axis have a length each; std::nullopt: one length for all.
  std::optional<int64_t> dim = 0;
};

/// w = g v / |v| (Salimans & Kingma 2016), with g = original0, v = original1 and norms over all
/// axes but `dim`.
struct NormedWeight {
  Parameter original0, original1;
  std::optional<int64_t> dim;

  NormedWeight(const Tensor& weight, const WeightNormOptions& options);
  Tensor weight() const;
  static void fields(auto& m, auto&& visit) {
    visit("original0", m.original0);
    visit("original1", m.original1);
  }
};

struct SpectralNormOptions {
  int64_t n_power_iterations = 1;  ///< per training pass
  double eps = 1e-12;              ///< lower bound of the norms of u and v
  /// The axis of the weight that becomes the matrix's rows; std::nullopt: the output axis.
  std::optional<int64_t> dim = {};
};

/// w / sigma(w) (Miyato et al. 2018). sigma is the largest singular value of w as a matrix. Power
/// iterations find it; they continue from u and v in training and stop in evaluation. u and v are
/// constants in the gradient. A weight with one axis is divided by its norm.
struct SpectralWeight {
  Parameter original;
  Buffer u, v;
  int64_t dim, iterations;
  double eps;
  TrainingMode training = true;

  SpectralWeight(const Tensor& weight, Rng& rng, int64_t dim, const SpectralNormOptions& options);
  Tensor weight() const;
  static void fields(auto& m, auto&& visit) {
    visit("original", m.original);
    visit("0._u", m.u);
    visit("0._v", m.v);
    visit("training", m.training);
  }

 private:
  Tensor matrix(const Tensor& w) const;
  void iterate(const Tensor& rows, int64_t times) const;
};

namespace detail {

/// Freezes `to` if `from` is frozen.
void keep_frozen(const Tensor& from, Parameter& to);

}  // namespace detail

template <TakesWeight L>
struct WeightNorm {
  L layer;  ///< its weight is undefined
  NormedWeight normed;

  explicit WeightNorm(L given, const WeightNormOptions& options = {})
      : layer(std::move(given)), normed(layer.weight, options) {
    layer.weight = Parameter();
  }
  Tensor weight() const { return normed.weight(); }
  template <class... More>
  requires TakesWeight<L, More...> Tensor operator()(const Tensor& x, const More&... more) const {
    ModuleScope module(normed.original0, 3);
    return layer.with_weight(weight(), x, more...);
  }
  /// The layer with the current weight.
  L merged() const {
    L plain = layer;
    plain.weight = Parameter(weight().detach().clone());
    detail::keep_frozen(normed.original1.own(), plain.weight);
    return plain;
  }
  static void fields(auto& m, auto&& visit) {
    visit("", m.layer);
    visit("parametrizations.weight", m.normed);
  }
};

template <TakesWeight L>
struct SpectralNorm {
  L layer;  ///< its weight is undefined
  SpectralWeight spectral;

  SpectralNorm(L given, Rng& rng, const SpectralNormOptions& options = {})
      : layer(std::move(given)), spectral(layer.weight, rng, rows_of(options), options) {
    layer.weight = Parameter();
  }
  Tensor weight() const { return spectral.weight(); }
  template <class... More>
  requires TakesWeight<L, More...> Tensor operator()(const Tensor& x, const More&... more) const {
    ModuleScope module(spectral.original, 3);
    return layer.with_weight(weight(), x, more...);
  }
  /// The layer with the weight that evaluation would use now.
  L merged() const {
    SpectralWeight still = spectral;
    still.training = false;
    L plain = layer;
    plain.weight = Parameter(still.weight().detach().clone());
    detail::keep_frozen(spectral.original.own(), plain.weight);
    return plain;
  }
  static void fields(auto& m, auto&& visit) {
    visit("", m.layer);
    visit("parametrizations.weight", m.spectral);
  }

 private:
  static int64_t rows_of(const SpectralNormOptions& options) {
    if constexpr (requires { L::kOutputAxis; }) return options.dim.value_or(L::kOutputAxis);
    return options.dim.value_or(0);
  }
};

}  // namespace tern::nn
