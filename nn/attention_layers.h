// Attention by score functions: weights = softmax of a(query, key) over the keys; context =
// weighted sum of the values. B examples, T queries, S keys.
//
// A ScoreAttention takes query (B, T, Dq), key (B, S, Dk), value (B, S, Dv) and a Mask (true:
// visible). It returns the context (B, T, Dv) and the weights (B, T, S). A score function is a
// module with  Tensor operator()(query, key) const -> scores (B, T, S). Layers with other arguments
// are at the end of this page. Several heads: nn/multihead_attention.h.
#pragma once

#include <utility>

#include "tern/core/ops/attention/additive.h"
#include "tern/nn/conv.h"
#include "tern/nn/dropout.h"
#include "tern/nn/linear.h"
#include "tern/nn/mask.h"

namespace tern::nn {

/// q . k
struct DotScore {
  Tensor operator()(const Tensor& query, const Tensor& key) const;
  static void fields(auto&, auto&&) {}
};

/// q . k / sqrt(D) (Vaswani et al. 2017).
struct ScaledDotScore {
  Tensor operator()(const Tensor& query, const Tensor& key) const;
  static void fields(auto&, auto&&) {}
};

/// q . W k (Luong, Pham & Manning 2015, "general"); W.weight (Dq, Dk).
struct GeneralScore {
  Linear w;

  GeneralScore(int64_t query_dim, int64_t key_dim, Rng& rng);
  Tensor operator()(const Tensor& query, const Tensor& key) const;
  static void fields(auto& m, auto&& visit) { visit("W", m.w); }
};

/// w_v . tanh(W_q q + W_k k) (Bahdanau, Cho & Bengio 2014), one hidden layer without biases.
struct AdditiveScore {
  Linear w_q, w_k, w_v;

  AdditiveScore(int64_t query_dim, int64_t key_dim, int64_t hidden, Rng& rng);
  Tensor operator()(const Tensor& query, const Tensor& key) const;
  /// The same with W_k k (B, S, hidden) computed in advance, once for all steps of a decoder.
  Tensor with_projected(const Tensor& query, const Tensor& projected_key) const;
  static void fields(auto& m, auto&& visit) {
    visit("W_q", m.w_q);
    visit("W_k", m.w_k);
    visit("w_v", m.w_v);
  }
};

/// sharpness * q . k / (|q| |k|) (Graves, Wayne & Danihelka 2014).
struct CosineScore {
  double sharpness = 1;
  double eps = 1e-8;  ///< added to the product of the norms
  Tensor operator()(const Tensor& query, const Tensor& key) const;
  static void fields(auto&, auto&&) {}
};

/// W q: scores for up to `keys` positions, independent of the keys' content (Luong et al. 2015,
/// "location"); W.weight (keys, Dq).
struct LocationScore {
  Linear w;

  LocationScore(int64_t query_dim, int64_t keys, Rng& rng);
  Tensor operator()(const Tensor& query, const Tensor& key) const;
  static void fields(auto& m, auto&& visit) { visit("W", m.w); }
};

/// Masked softmax of the scores, then dropout on the weights of the sum. Returns the weights before
/// dropout.
Attended attend_by_scores(const Tensor& scores, const Tensor& value, const Mask& mask,
                          const Dropout& dropout);

/// Attention with a score function. Its fields have the score function's names.
template <class Score>
struct ScoreAttention {
  Score score;
  Dropout dropout;

  ScoreAttention(Score function, double p, Rng& rng)
      : score(std::move(function)), dropout(p, rng) {}
  Attended operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                      const Mask& mask = {}) const {
    return attend_by_scores(score(query, key), value, mask, dropout);
  }
  static void fields(auto& m, auto&& visit) {
    visit("", m.score);
    visit("dropout", m.dropout);
  }
};

using DotAttention = ScoreAttention<DotScore>;
using ScaledDotAttention = ScoreAttention<ScaledDotScore>;
using GeneralAttention = ScoreAttention<GeneralScore>;
using AdditiveAttention = ScoreAttention<AdditiveScore>;
using CosineAttention = ScoreAttention<CosineScore>;
using LocationAttention = ScoreAttention<LocationScore>;

namespace detail {
Parameter learned_queries(int64_t queries, int64_t dim, Rng& rng);
}

/// Content-based attention: learned queries theta (T, D) attend to values V (B, S, Dv), y_j = sum_i
/// softmax_i a(theta_j, V_i) V_i (B, T, Dv). theta starts in N(0, 1 / D).
template <class Score = DotScore>
struct ContentAttention {
  Parameter theta;
  ScoreAttention<Score> attention;

  ContentAttention(int64_t queries, int64_t dim, Rng& rng, Score score = {}, double dropout = 0)
      : theta(detail::learned_queries(queries, dim, rng)),
        attention(std::move(score), dropout, rng) {}
  Attended operator()(const Tensor& values, const Mask& mask = {}) const {
    return attention(expand(theta, {values.size(0), theta.size(0), theta.size(1)}), values, values,
                     mask);
  }
  static void fields(auto& m, auto&& visit) {
    visit("theta", m.theta);
    visit("", m.attention);
  }
};

/// Context attention: contexts C (B, T, D) attend to values V (B, S, Dv), y_j = sum_i softmax_i
/// a(C_j, V_i) V_i (B, T, Dv).
template <class Score = DotScore>
struct ContextAttention {
  ScoreAttention<Score> attention;

  explicit ContextAttention(Rng& rng, Score score = {}, double dropout = 0)
      : attention(std::move(score), dropout, rng) {}
  Attended operator()(const Tensor& contexts, const Tensor& values, const Mask& mask = {}) const {
    return attention(contexts, values, values, mask);
  }
  static void fields(auto& m, auto&& visit) { visit("", m.attention); }
};

/// Self-attention on channels-first sequences by 1x1 convolutions without bias and with unscaled
/// scores: x (B, in, T) -> Q, K (B, keys, T), V (B, out, T), A = softmax_s(sum_c Q_ct K_cs) (B, T,
/// T), y_ct = sum_s A_ts V_cs (B, out, T).
struct AttentionLayer {
  Conv1d conv_q, conv_k, conv_v;

  AttentionLayer(int64_t in, int64_t out, int64_t keys, Rng& rng);
  Tensor operator()(const Tensor& x, const Mask& mask = {}) const;
  /// The context y (B, out, T) and A.
  Attended with_weights(const Tensor& x, const Mask& mask = {}) const;
  static void fields(auto& m, auto&& visit) {
    visit("conv_Q", m.conv_q);
    visit("conv_K", m.conv_k);
    visit("conv_V", m.conv_v);
  }
};

}  // namespace tern::nn
