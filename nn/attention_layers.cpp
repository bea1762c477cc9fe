// Score functions (dot, scaled dot, general, additive, cosine, location), the attention that
// applies their softmax to the values, and self-attention by 1x1 convolutions.
#include "tern/nn/attention_layers.h"

#include <cmath>

#include "tern/core/tape/op.h"
#include "tern/nn/init.h"

namespace tern::nn {
namespace {

void check_pair(const char* name, const Tensor& query, const Tensor& key) {
  check(query.ndim() == 3 && key.ndim() == 3 && query.size(0) == key.size(0),
        "{}: needs query (B, T, Dq) and key (B, S, Dk), got {} and {}", name, query.shape(),
        key.shape());
}

/// Checks that x has the number of channels that a weight needs.
void check_channels(const char* name, const char* what, const Tensor& x, int64_t channels) {
  check(x.size(2) == channels, "{}: {} have {} channels, but the weight needs {}", name, what,
        x.size(2), channels);
}

/// q . k for every pair.
Tensor dots(const char* name, const Tensor& query, const Tensor& key) {
  check_pair(name, query, key);
  check(query.size(2) == key.size(2), "{}: queries of {} channels do not match keys of {} channels",
        name, query.size(2), key.size(2));
  return matmul(query, transpose(key, 1, 2));
}

/// (B, C, T) as one head (B, 1, T, C).
Tensor as_head(const Tensor& x) { return unsqueeze(transpose(x, 1, 2), 1); }

}  // namespace

Tensor DotScore::operator()(const Tensor& query, const Tensor& key) const {
  return dots("DotScore", query, key);
}

Tensor ScaledDotScore::operator()(const Tensor& query, const Tensor& key) const {
  Tensor scores = dots("ScaledDotScore", query, key);
  return scores * (1 / std::sqrt(static_cast<double>(std::max<int64_t>(query.size(2), 1))));
}

GeneralScore::GeneralScore(int64_t query_dim, int64_t key_dim, Rng& rng)
    : w(key_dim, query_dim, rng, Bias::no) {}

Tensor GeneralScore::operator()(const Tensor& query, const Tensor& key) const {
  check_pair("GeneralScore", query, key);
  check_channels("GeneralScore", "queries", query, w.weight.size(0));
  check_channels("GeneralScore", "keys", key, w.weight.size(1));
  return dots("GeneralScore", query, w(key));
}

AdditiveScore::AdditiveScore(int64_t query_dim, int64_t key_dim, int64_t hidden, Rng& rng)
    : w_q(query_dim, hidden, rng, Bias::no),
      w_k(key_dim, hidden, rng, Bias::no),
      w_v(hidden, 1, rng, Bias::no) {}

Tensor AdditiveScore::operator()(const Tensor& query, const Tensor& key) const {
  ModuleScope module(w_k.weight, 2);
  check_pair("AdditiveScore", query, key);
  check_channels("AdditiveScore", "keys", key, w_k.weight.size(1));
  return with_projected(query, w_k(key));
}

Tensor AdditiveScore::with_projected(const Tensor& query, const Tensor& projected_key) const {
  ModuleScope module(w_q.weight, 2);
  check_pair("AdditiveScore", query, projected_key);
  check_channels("AdditiveScore", "queries", query, w_q.weight.size(1));
  check_channels("AdditiveScore", "projected keys", projected_key, w_k.weight.size(0));
  return additive_scores(w_q(query), projected_key, reshape(w_v.weight, w_v.weight.size(1)));
}

Tensor CosineScore::operator()(const Tensor& query, const Tensor& key) const {
  Tensor products = dots("CosineScore", query, key);
  Tensor norms = norm(query, 2, -1, true) * transpose(norm(key, 2, -1, true), 1, 2);
  return products * sharpness / (norms + eps);
}

LocationScore::LocationScore(int64_t query_dim, int64_t keys, Rng& rng)
    : w(query_dim, keys, rng, Bias::no) {}

Tensor LocationScore::operator()(const Tensor& query, const Tensor& key) const {
  ModuleScope module(w.weight, 2);
  check_pair("LocationScore", query, key);
  check_channels("LocationScore", "queries", query, w.weight.size(1));
  check(key.size(1) <= w.weight.size(0),
        "LocationScore: got {} keys, but the weights are for {} positions", key.size(1),
        w.weight.size(0));
  return linear(query, narrow(w.weight, 0, 0, key.size(1)));
}

Attended attend_by_scores(const Tensor& scores, const Tensor& value, const Mask& mask,
                          const Dropout& dropout) {
  check(scores.ndim() == 3 && value.ndim() == 3 && value.size(0) == scores.size(0) &&
            value.size(1) == scores.size(2),
        "attention: values {} do not match scores {}", value.shape(), scores.shape());
  Tensor weights = mask.softmax(scores);
  return {matmul(dropout(weights), value), weights};
}

Parameter detail::learned_queries(int64_t queries, int64_t dim, Rng& rng) {
  Parameter theta(empty({queries, dim}));
  init::normal(theta, 0, 1 / std::sqrt(static_cast<double>(std::max<int64_t>(dim, 1))), rng);
  return theta;
}

AttentionLayer::AttentionLayer(int64_t in, int64_t out, int64_t keys, Rng& rng)
    : conv_q(in, keys, 1, rng, {}, Bias::no),
      conv_k(in, keys, 1, rng, {}, Bias::no),
      conv_v(in, out, 1, rng, {}, Bias::no) {}

Tensor AttentionLayer::operator()(const Tensor& x, const Mask& mask) const {
  ModuleScope module(conv_q.weight, 2);
  Tensor y = attention(as_head(conv_q(x)), as_head(conv_k(x)), as_head(conv_v(x)),
                       {.mask = mask.parts(), .scale = 1});
  return transpose(squeeze(y, 1), 1, 2);
}

Attended AttentionLayer::with_weights(const Tensor& x, const Mask& mask) const {
  ModuleScope module(conv_q.weight, 2);
  Attended y = attention_with_weights(as_head(conv_q(x)), as_head(conv_k(x)), as_head(conv_v(x)),
                                      {.mask = mask.parts(), .scale = 1});
  return {transpose(squeeze(y.context, 1), 1, 2), squeeze(y.weights, 1)};
}

}  // namespace tern::nn
