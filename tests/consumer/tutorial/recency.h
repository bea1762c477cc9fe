// Attention that prefers what is near: each head learns how fast its scores fall with distance.
//
//   scores = q k^T / sqrt(D) - rate_h |t - s|,   rate_h = softplus(r_h) >= 0
#pragma once

#include <tern/tern.h>

using namespace tern;

struct RecencyAttention {
  nn::Linear qkv, out;
  nn::Parameter r;  // (H)
  int64_t heads;

  RecencyAttention(int64_t dim, int64_t heads, Rng& rng)
      : qkv(dim, 3 * dim, rng), out(dim, dim, rng), r(linspace(-4, 0, heads)), heads(heads) {}

  // x (B, T, E) -> (B, T, E); token t sees tokens 0 ... t.
  Tensor operator()(const Tensor& x) const {
    Tensor t = arange(0, x.size(1)).to(x.dtype());
    Tensor distance = abs(unsqueeze(t, 1) - t);                      // (T, T)
    Tensor bias = -rearrange(softplus(r), "h -> h 1 1") * distance;  // (H, T, T)
    nn::Mask mask = nn::Mask::causal() & nn::Mask::bias(bias);
    return out(self_attention(qkv(x), {.heads = heads}, {.mask = mask.parts()}));
  }
  static void fields(auto& m, auto&& visit) {
    visit("qkv", m.qkv);
    visit("out", m.out);
    visit("r", m.r);
  }
};

// Says for a sequence of tokens what belongs at its end.
struct Reader {
  nn::Embedding embed;
  RecencyAttention attend;
  nn::LayerNorm norm;
  nn::Linear head;

  Reader(int64_t tokens, int64_t answers, Rng& rng)
      : embed(tokens, 64, rng), attend(64, 4, rng), norm(64), head(64, answers, rng) {}

  // tokens i64 (B, T) -> logits (B, answers)
  Tensor operator()(const Tensor& tokens) const {
    Tensor x = embed(tokens);
    return head(select(norm(x + attend(x)), 1, -1));
  }
  static void fields(auto& m, auto&& visit) {
    visit("embed", m.embed);
    visit("attend", m.attend);
    visit("norm", m.norm);
    visit("head", m.head);
  }
};
