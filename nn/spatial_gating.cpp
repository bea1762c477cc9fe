#include "tern/nn/spatial_gating.h"

#include <cmath>

#include "tern/core/tape/op.h"
#include "tern/nn/init.h"

namespace tern::nn {
namespace {

int64_t gated_channels(int64_t channels, const SpatialGatingOptions& o) {
  check(!o.split || channels % 2 == 0,
        "SpatialGatingUnit: {} channels cannot be split into halves; use .split = false", channels);
  int64_t gated = o.split ? channels / 2 : channels;
  check(o.heads > 0 && gated % o.heads == 0,
        "SpatialGatingUnit: {} heads do not divide the {} gated channels", o.heads, gated);
  check(o.gate != Gate::linear || !o.split,
        "SpatialGatingUnit: a linear gate has no use for the first half; use .split = false");
  return gated;
}

int64_t weights_of(SpatialMatrix matrix, int64_t tokens) {
  return matrix == SpatialMatrix::toeplitz ? 2 * tokens - 1 : tokens;
}

}  // namespace

SpatialGatingUnit::SpatialGatingUnit(int64_t channels, int64_t tokens, Rng& rng,
                                     const SpatialGatingOptions& o)
    : norm(gated_channels(channels, o)), options(o) {
  Shape w, b;
  if (o.heads > 1) w = b = Shape(o.heads);
  if (o.matrix == SpatialMatrix::full) w.push_back(tokens);
  w.push_back(weights_of(o.matrix, tokens));
  b.push_back(tokens);
  weight = Parameter(empty(w));
  init::uniform(weight, -o.weight_bound, o.weight_bound, rng);
  bias = Parameter(ones(b));
}

Tensor SpatialGatingUnit::spatial_weight() const {
  Tensor w = weight;
  if (options.matrix != SpatialMatrix::full) {
    int64_t tokens = bias.size(-1);
    // The diagonals from j-i = -(N-1) to N-1; row i of W is the window that starts at N-1-i.
    if (options.matrix == SpatialMatrix::circulant)
      w = cat({narrow(weight, -1, 1, tokens - 1), weight}, -1);
    w = flip(unfold(w, -1, tokens, 1), -2);
  }
  return options.causal ? tril(w) : w;
}

Tensor SpatialGatingUnit::operator()(const Tensor& x, const Tensor& added) const {
  if (!options.split) return gate(x, x, added);
  std::vector<Tensor> halves = chunk(x, 2, -1);
  return gate(halves[0], halves[1], added);
}

Tensor SpatialGatingUnit::gate(const Tensor& u, const Tensor& v, const Tensor& added) const {
  ModuleScope module(bias);
  check(v.ndim() == 3 && u.ndim() == 3 && v.size(1) == bias.size(-1) && u.size(1) <= v.size(1),
        "SpatialGatingUnit: needs (B, {} tokens, channels), the shape is {}", bias.size(-1),
        v.shape());
  Tensor w = spatial_weight(), b = unsqueeze(bias, -1), x = norm(v);
  if (u.size(1) < v.size(1)) {
    w = narrow(w, -2, 0, u.size(1));
    b = narrow(b, -2, 0, u.size(1));
  }
  Tensor f;
  if (options.heads == 1) {
    f = matmul(w, x) + b;  // (M,N) (B,N,C) + (M,1)
  } else {
    // (B,N,C) -> (B,H,N,C/H), (H,M,N) (B,H,N,C/H) + (H,M,1), and back
    Tensor heads = transpose(unflatten(x, -1, {options.heads, -1}), 1, 2);
    f = flatten(transpose(matmul(w, heads) + b, 1, 2), 2);
  }
  if (added.defined()) f = f + added;
  if (options.gate == Gate::linear) return f;
  return options.gate == Gate::additive ? u + f : u * f;
}

TinyAttention::TinyAttention(int64_t in, int64_t out, int64_t d, Rng& rng, bool is_causal)
    : to_qkv(in, 3 * d, rng), to_out(d, out, rng), dim(d), causal(is_causal) {}

Tensor TinyAttention::operator()(const Tensor& x) const {
  ModuleScope module(to_qkv.weight, 2);
  std::vector<Tensor> qkv = chunk(to_qkv(x), 3, -1);
  Tensor scores =
      matmul(qkv[0], transpose(qkv[1], 1, 2)) * (1 / std::sqrt(static_cast<double>(dim)));
  Tensor mask;
  if (causal) mask = tril(ones({x.size(1), x.size(1)}, DType::u8));
  return to_out(matmul(softmax(scores, -1, mask), qkv[2]));
}

}  // namespace tern::nn
