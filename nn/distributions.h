// Probability distributions: samples, log probabilities, entropies and divergences, with gradients
// by the parameters. For policies, variational models and mixtures.
//
//   nn::Categorical policy({.logits = net(state)});         // logits (B, A)
//   Tensor action = policy.sample(rng);                     // i64 (B)
//   Tensor loss = -mean(policy.log_prob(action) * advantage) - 0.01 * mean(policy.entropy());
//
//   nn::Normal posterior(mean, stddev), prior(zeros({D}), ones({D}));
//   Tensor z = posterior.rsample(rng);                      // gradients to mean and stddev
//   Tensor divergence = sum(nn::kl_divergence(posterior, prior), -1);
//
// Names and meaning are those of torch.distributions, except for certain events (below). The batch
// shape is the shape of independent distributions. sample(rng, shape) gives shape + batch shape;
// log_prob(x) broadcasts x with the batch shape; kl_divergence broadcasts its two distributions.
// Parameters are f32 or f64, in any layout. The constructor checks them: NaN, negative
// probabilities and deviations of 0 are an Error. Samples have no gradient (rsample has one). They
// depend only on the generator, not on the number of threads.
//
// Impossible and certain events are exact. A probability of 0 (a class's logit -inf, a Bernoulli's
// infinite logit) adds 0 to entropies and divergences, with gradient 0, and its log_prob is -inf.
// PyTorch shifts such probabilities by an eps and gives NaN for infinite logits.
#pragma once

#include "tern/core/base/rng.h"
#include "tern/core/tensor/tensor.h"

namespace tern::nn {

namespace detail {
/// No other type converts to it. As first member it makes designators necessary.
struct Named {
  constexpr Named() {}  // not an aggregate
};
}  // namespace detail

/// The parameters as logits or as probabilities: give exactly one, by its name.
struct LogitsOrProbs {
  detail::Named named = {};
  Tensor logits = {};
  Tensor probs = {};
};

/// One of K classes, with probabilities along the last axis of the parameters (..., K).
class Categorical {
 public:
  /// softmax(logits), or probs divided by their sum. A logit of -inf makes a class impossible.
  /// Classes with logit +inf share all of the probability. Error if a row has no possible class.
  explicit Categorical(const LogitsOrProbs& parameters);

  Shape batch_shape() const;                               ///< without the axis of classes
  int64_t classes() const { return log_probs_.size(-1); }  ///< K
  const Tensor& probs() const { return probs_; }           ///< (..., K), summing to 1
  const Tensor& log_probs() const { return log_probs_; }   ///< (..., K)
  Tensor sample(Rng& rng, const Shape& shape = {}) const;  ///< i64
  /// x: classes, integers in [0, K); otherwise an Error.
  Tensor log_prob(const Tensor& x) const;
  Tensor entropy() const;  ///< in nats

 private:
  Tensor given_, log_probs_, probs_;  // given_: the given probs, undefined for logits
};

/// 1 with the given probability, else 0, in the parameters' type.
class Bernoulli {
 public:
  /// sigmoid(logits), or probs in [0, 1].
  explicit Bernoulli(const LogitsOrProbs& parameters);

  const Shape& batch_shape() const { return one_.shape(); }
  const Tensor& probs() const { return one_; }  ///< of 1; also the mean
  Tensor sample(Rng& rng, const Shape& shape = {}) const;
  /// x: 0 or 1 of any type; otherwise an Error.
  Tensor log_prob(const Tensor& x) const;
  Tensor entropy() const;
  friend Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);

 private:
  Tensor logits_;                           // undefined for probs
  Tensor one_, zero_, log_one_, log_zero_;  // the probabilities of 1 and 0, their logarithms
};

class Normal {
 public:
  /// mean and stddev broadcast together; stddev > 0.
  Normal(const Tensor& mean, const Tensor& stddev);

  const Shape& batch_shape() const { return mean_.shape(); }
  const Tensor& mean() const { return mean_; }
  const Tensor& stddev() const { return stddev_; }
  Tensor sample(Rng& rng, const Shape& shape = {}) const;
  /// mean + stddev e with e from N(0, 1): the same numbers as sample(), with gradients to mean and
  /// stddev (Kingma & Welling 2014).
  Tensor rsample(Rng& rng, const Shape& shape = {}) const;
  Tensor log_prob(const Tensor& x) const;  ///< log density; with a gradient by x too
  Tensor entropy() const;

 private:
  Tensor mean_, stddev_;
};

/// KL(p || q) = E_p[log p - log q], in nats. Infinite if p allows an event that q excludes.
Tensor kl_divergence(const Categorical& p, const Categorical& q);
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
Tensor kl_divergence(const Normal& p, const Normal& q);

}  // namespace tern::nn
