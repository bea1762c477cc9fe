// Weight norm, and spectral norm by power iterations.
#include "tern/nn/parametrizations.h"

#include "tern/core/base/rng.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/segment.h"
#include "tern/core/tape/substitution.h"

namespace tern::nn {
namespace {

constexpr int64_t kFirstIterations = 15;  // as in PyTorch

/// All axes but `dim`; all axes if it is nullopt.
Dims others(int ndim, std::optional<int64_t> dim) {
  Dims axes;
  for (int a = 0; a < ndim; ++a)
    if (!dim || a != *dim) axes.push_back(a);
  return axes;
}

/// The norm of v over all axes but `dim`, which have size 1 in the result; () over all.
Tensor norms(const Tensor& v, std::optional<int64_t> dim) {
  if (!dim) return norm(v);
  const Dims axes = others(v.ndim(), dim);
  return axes.empty() ? abs(v) : norm(v, 2, axes, true);
}

Tensor normalised(const Tensor& x, double eps) { return x / maximum(norm(x), eps); }

}  // namespace

namespace detail {

void keep_frozen(const Tensor& from, Parameter& to) {
  if (!from.requires_grad()) to.own().set_requires_grad(false);
}

}  // namespace detail

using detail::keep_frozen;

NormedWeight::NormedWeight(const Tensor& weight, const WeightNormOptions& o) : dim(o.dim) {
  check(weight.defined(), "WeightNorm: nothing to parametrize: the layer has no weight");
  check(!dim || (*dim >= 0 && *dim < weight.ndim()),
        "WeightNorm: dim {} is not an axis of the weight {}; give std::nullopt for the norm of the "
        "whole weight",
        dim.value_or(0), weight.shape());
  NoGradGuard no_grad;
  original0 = Parameter(norms(weight, dim).clone());
  original1 = Parameter(weight.detach().clone());
  keep_frozen(weight, original0);
  keep_frozen(weight, original1);
}

Tensor NormedWeight::weight() const {
  const Tensor& v = original1;
  tern::detail::check_unhooked("WeightNorm", v, "use a WeightsInstead");
  const Tensor n = norms(v, dim);  // 0 for the row of an embedding's padding_idx
  return v * (original0.tensor() / masked_fill(n, eq(n, 0), 1));
}

SpectralWeight::SpectralWeight(const Tensor& weight, Rng& rng, int64_t rows,
                               const SpectralNormOptions& o)
    : dim(rows), iterations(o.n_power_iterations), eps(o.eps) {
  check(weight.defined(), "SpectralNorm: nothing to parametrize: the layer has no weight");
  check(iterations > 0, "SpectralNorm: needs at least one power iteration, got {}", iterations);
  dim = normalize_axis("SpectralNorm", dim, weight.ndim());
  check(weight.numel() > 0, "SpectralNorm: the weight {} has no elements", weight.shape());
  NoGradGuard no_grad;
  original = Parameter(weight.detach().clone());
  keep_frozen(weight, original);
  if (weight.ndim() == 1) return;
  const Tensor w = matrix(original);
  u = Buffer(normalised(randn({w.size(0)}, rng, w.dtype()), eps));
  v = Buffer(normalised(randn({w.size(1)}, rng, w.dtype()), eps));
  iterate(w, kFirstIterations);
}

Tensor SpectralWeight::matrix(const Tensor& w) const {
  Dims axes(dim);
  for (int a = 0; a < w.ndim(); ++a)
    if (a != dim) axes.push_back(a);
  return flatten(permute(w, axes), 1);
}

void SpectralWeight::iterate(const Tensor& rows, int64_t times) const {
  NoGradGuard no_grad;
  const Tensor w = rows.detach();
  for (int64_t i = 0; i < times; ++i) {
    copy_(u, normalised(matmul(w, v), eps));
    copy_(v, normalised(matmul(transpose(w, 0, 1), u), eps));
  }
}

Tensor SpectralWeight::weight() const {
  const Tensor& w = original;
  tern::detail::check_unhooked("SpectralNorm", w, "use a WeightsInstead");
  if (w.ndim() == 1) return normalised(w, eps);
  const Tensor rows = matrix(w);
  // Copies, since u and v may change before the backward pass.
  const std::vector<Tensor> sides = tern::detail::in_first_run([&] {
    if (training && w.requires_grad()) {
      iterate(rows, iterations);
      return std::vector<Tensor>{u.tensor().clone(), v.tensor().clone()};
    }
    return std::vector<Tensor>{normalised(u, eps), normalised(v, eps)};  // averages are shorter
  });
  const Tensor sigma = matmul(sides[0], matmul(rows, sides[1]));
  return w / masked_fill(sigma, eq(sigma, 0), 1);
}

}  // namespace tern::nn
