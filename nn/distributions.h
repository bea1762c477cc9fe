// Probability distributions: draws, log probabilities, entropies and divergences, with gradients to
// the parameters. For policies, variational models and mixtures.
//
//   nn::Categorical policy({.logits = net(state)});         // logits (B, A)
//   Tensor action = policy.sample(rng);                     // i64 (B)
//   Tensor loss = -mean(policy.log_prob(action) * advantage) - 0.01 * mean(policy.entropy());
//
//   nn::Normal posterior(mean, stddev), prior(zeros({D}), ones({D}));
//   Tensor z = posterior.rsample(rng);                      // gradients to mean and stddev
//   Tensor divergence = sum(nn::kl_divergence(posterior, prior), -1);
//
// Names and meaning are torch.distributions', but for certain cases (below). The batch shape is
// that of independent distributions side by side. sample(rng, shape) gives shape + batch shape;
// log_prob(x) broadcasts x with the batch shape; kl_divergence broadcasts its two distributions.
// Parameters are f32 or f64, of any layout. They are checked as a distribution is made: NaN,
// negative probabilities and deviations of 0 are an Error. Draws have no gradient (rsample has);
// they depend on the generator alone, not on the number of threads.
//
// Certain cases are exact: a probability of 0 (a logit of -inf for a class, an infinite logit of a
// Bernoulli) counts 0 in entropies and divergences, with gradient 0, and its log_prob is -inf.
// PyTorch moves such probabilities by an eps and gives NaN for infinite logits.
#pragma once

#include "tern/core/base/rng.h"
#include "tern/core/tensor/tensor.h"

namespace tern::nn {

/// How likely something is: exactly one of the two must be given.
struct LogitsOrProbs {
  Tensor logits = {};
  Tensor probs = {};
};

/// One of K classes, with probabilities along the last axis of the parameters (..., K).
class Categorical {
 public:
  /// softmax(logits), or probs divided by their sums. A logit of -inf is a class that cannot be;
  /// classes of logit +inf share all of the probability. A row without a possible class is an
  /// Error.
  explicit Categorical(const LogitsOrProbs& parameters);

  Shape batch_shape() const;                               ///< without the axis of K
  int64_t classes() const { return log_probs_.size(-1); }  ///< K
  const Tensor& probs() const { return probs_; }           ///< (..., K), sums are 1
  const Tensor& log_probs() const { return log_probs_; }   ///< (..., K)
  Tensor sample(Rng& rng, const Shape& shape = {}) const;  ///< i64
  /// x: classes, integers in [0, K), else an Error.
  Tensor log_prob(const Tensor& x) const;
  Tensor entropy() const;  ///< in nats

 private:
  Tensor given_, log_probs_, probs_;  // given_: the weights, undefined for logits
};

/// 1 with a probability, else 0; numbers are of the parameters' type.
class Bernoulli {
 public:
  /// sigmoid(logits), or probs in [0, 1].
  explicit Bernoulli(const LogitsOrProbs& parameters);

  const Shape& batch_shape() const { return one_.shape(); }
  const Tensor& probs() const { return one_; }  ///< of 1, which is the mean
  Tensor sample(Rng& rng, const Shape& shape = {}) const;
  /// x: 0 or 1 of any type, else an Error.
  Tensor log_prob(const Tensor& x) const;
  Tensor entropy() const;
  friend Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);

 private:
  Tensor logits_;                           // undefined for probs
  Tensor one_, zero_, log_one_, log_zero_;  // the probabilities of 1 and 0, their logarithms
};

class Normal {
 public:
  /// They broadcast together; stddev > 0.
  Normal(const Tensor& mean, const Tensor& stddev);

  const Shape& batch_shape() const { return mean_.shape(); }
  const Tensor& mean() const { return mean_; }
  const Tensor& stddev() const { return stddev_; }
  Tensor sample(Rng& rng, const Shape& shape = {}) const;
  /// mean + stddev e with e from N(0, 1): the same numbers as sample, with gradients to mean and
  /// stddev (Kingma & Welling 2014).
  Tensor rsample(Rng& rng, const Shape& shape = {}) const;
  Tensor log_prob(const Tensor& x) const;  ///< of the density; gradient to x, too
  Tensor entropy() const;

 private:
  Tensor mean_, stddev_;
};

/// KL(p || q) = E_p[log p - log q], in nats; infinite where q cannot be and p can.
Tensor kl_divergence(const Categorical& p, const Categorical& q);
Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q);
Tensor kl_divergence(const Normal& p, const Normal& q);

}  // namespace tern::nn
