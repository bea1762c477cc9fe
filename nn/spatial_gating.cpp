// The spatial gating unit (full, Toeplitz and circulant matrices, steps for decoding), and the tiny
// attention of aMLP.
#include "tern/nn/spatial_gating.h"

#include "tern/core/ops/attention/heads.h"
#include "tern/core/ops/fused.h"
#include "tern/core/tape/op.h"
#include "tern/core/tape/substitution.h"
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

Tensor cut(const Tensor& x, int64_t axis, int64_t first, int64_t length) {
  return length == x.size(axis) ? x : narrow(x, axis, first, length);
}

// u * (f + b + added) in one pass.
Tensor gated(const Tensor& u, const Tensor& f, const Tensor& b, const Tensor& added) {
  constexpr const char* kName = "gate";
  if (!added.defined())
    return fused(
        kName, [](auto x, auto y, auto z) { return x * (y + z); }, u, f, b);
  auto formula = [](auto x, auto y, auto z, auto t) { return x * (y + z + t); };
  return fused(kName, formula, u, f, b, added);
}

}  // namespace

SpatialGatingCache SpatialGatingCache::select_rows(const Tensor& rows) const {
  return {values.defined() ? index_select(values, 0, rows) : values};
}

SpatialGatingUnit::SpatialGatingUnit(int64_t channels, int64_t tokens, Rng& rng,
                                     const SpatialGatingOptions& o)
    : norm(gated_channels(channels, o)), options(o) {
  Shape w, b;
  if (o.heads > 1) w = b = Shape(o.heads);
  if (o.matrix == SpatialMatrix::full) w.push_back(tokens);
  w.push_back(weights_of(o.matrix, tokens));
  b.push_back(tokens);
  weight = Parameter(empty(w));
  const double bound = o.weight_bound.value_or(0.05);
  init::uniform(weight, -bound, bound, rng);
  bias = Parameter(ones(b));
}

// W[first .. first + rows, 0 .. columns].
Tensor SpatialGatingUnit::weight_part(int64_t first, int64_t rows, int64_t columns) const {
  Tensor w = weight;
  if (options.matrix == SpatialMatrix::full) {
    w = cut(cut(w, -2, first, rows), -1, 0, columns);
  } else {
    const int64_t tokens = bias.size(-1);
    // The diagonals from j-i = -(N-1) to N-1. Row i of W is the window that begins at N-1-i.
    if (options.matrix == SpatialMatrix::circulant)
      w = cat({narrow(weight, -1, 1, tokens - 1), weight}, -1);
    w = cut(w, -1, tokens - first - rows, columns + rows - 1);
    w = flip(unfold(w, -1, columns, 1), -2);
  }
  return options.causal && columns > first + 1 ? tril(w, first) : w;
}

Tensor SpatialGatingUnit::spatial_weight() const {
  return weight_part(0, bias.size(-1), bias.size(-1));
}

Tensor SpatialGatingUnit::operator()(const Tensor& x, const Tensor& added,
                                     const Tensor& real) const {
  if (!options.split) return gate(x, x, added, real);
  std::vector<Tensor> halves = chunk(x, 2, -1);
  return gate(halves[0], halves[1], added, real);
}

Tensor SpatialGatingUnit::gate(const Tensor& u, const Tensor& v, const Tensor& added,
                               const Tensor& real) const {
  ModuleScope module(norm.weight, 2);
  const int64_t tokens = bias.size(-1);
  check(v.ndim() == 3 && u.ndim() == 3 && u.size(1) <= v.size(1) &&
            (v.size(1) == tokens || (options.shorter && v.size(1) > 0 && v.size(1) < tokens)),
        "SpatialGatingUnit: needs (B, {}{} tokens, channels), the shape is {}",
        options.shorter ? "1 to " : "", tokens, v.shape());
  Tensor values = norm(v);
  if (real.defined()) {
    check(real.shape() == Shape{v.size(0), v.size(1)},
          "SpatialGatingUnit: the mask of real tokens {} does not match the values {}",
          real.shape(), v.shape());
    values = where(unsqueeze(real, -1), values, 0);
  }
  return mixed(u, values, 0, added);
}

Tensor SpatialGatingUnit::step(const Tensor& x, SpatialGatingCache& cache,
                               const Tensor& added) const {
  ModuleScope module(norm.weight, 2);
  const int64_t first = cache.length(), tokens = bias.size(-1);
  check(options.causal,
        "SpatialGatingUnit: step() needs .causal = true, so that no token sees later ones");
  check(x.ndim() == 3 && x.size(1) > 0 && first + x.size(1) <= tokens,
        "SpatialGatingUnit: the cache holds {} of at most {} tokens, so an input {} does not fit",
        first, tokens, x.shape());
  std::vector<Tensor> halves = options.split ? chunk(x, 2, -1) : std::vector{x, x};
  Tensor values = norm(halves[1]);
  cache.values = first > 0 ? cat({cache.values, values}, 1) : values;
  return mixed(halves[0], cache.values, first, added);
}

// u (B,M,C): tokens first, first + 1, ...; values (B,S,C): tokens 0, 1, ...
Tensor SpatialGatingUnit::mixed(const Tensor& u, const Tensor& values, int64_t first,
                                const Tensor& added) const {
  tern::detail::check_unhooked("SpatialGatingUnit", weight, "use a WeightsInstead");
  Tensor w = weight_part(first, u.size(1), values.size(1));
  Tensor b = unsqueeze(cut(bias, -1, first, u.size(1)), -1), f;
  if (options.heads == 1) {
    f = matmul(w, values);  // (M,S) (B,S,C) + (M,1)
    if (options.gate == Gate::multiplicative) return gated(u, f, b, added);
    f = f + b;
  } else {
    // (B,S,C) -> (B,H,S,C/H), (H,M,S) (B,H,S,C/H) + (H,M,1), and back
    f = tern::detail::join_heads(matmul(w, tern::detail::split_heads(values, options.heads)) + b);
  }
  if (added.defined()) f = f + added;
  if (options.gate == Gate::linear) return f;
  return options.gate == Gate::additive ? u + f : u * f;
}

TinyAttention::TinyAttention(int64_t in, int64_t out, int64_t d, Rng& rng, bool is_causal)
    : to_qkv(in, 3 * d, rng), to_out(d, out, rng), causal(is_causal) {}

Tensor TinyAttention::operator()(const Tensor& x, const Mask& mask) const {
  ModuleScope module(to_qkv.weight, 2);
  const Mask seen = causal ? mask & Mask::causal() : mask;
  return to_out(self_attention(to_qkv(x), {}, {.mask = seen.parts()}));
}

Tensor TinyAttention::step(const Tensor& x, KeyValueCache& cache) const {
  ModuleScope module(to_qkv.weight, 2);
  check(causal, "TinyAttention: step() needs causal attention, where no token sees later ones");
  std::vector<Tensor> qkv = chunk(unsqueeze(to_qkv(x), 1), 3, -1);  // (B,1,n,dim) each
  const Mask seen = Mask::causal(cache.length());
  cache.append(qkv[1], qkv[2]);
  Tensor y = attention(qkv[0], cache.keys(), cache.values(), {.mask = seen.parts()});
  return to_out(squeeze(y, 1));
}

}  // namespace tern::nn
