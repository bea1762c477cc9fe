// Categorical, Bernoulli and Normal in terms of differentiable ops; probabilities of 0 and 1 are
// exact.
#include "tern/nn/distributions.h"

#include <cmath>
#include <limits>
#include <numbers>

#include "tern/core/ops/indexing/indexing.h"
#include "tern/core/ops/statistics/statistics.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern::nn {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kLogRoot2Pi = 0.5 * std::log(2 * std::numbers::pi);

void check_float(const char* name, const Tensor& x) {
  check(is_float(x.dtype()), "{}: parameters are f32 or f64, got {}; convert with .to()", name,
        x.dtype());
}

// Error if `bad`, a mask of x, is not 0 everywhere.
void refuse(const char* name, const char* rule, const Tensor& bad, const Tensor& x) {
  if (any(bad).item<int>() == 0) return;
  const int64_t at = argmax(bad).item<int64_t>();
  fail(fmt::format("{}: {}; element {} of shape {} is {}", name, rule, at, x.shape(),
                   reshape(x.detach(), Shape{x.numel()})[at].item()));
}

Shape joined(Shape shape, const Shape& batch) {
  for (int64_t n : batch) shape.push_back(n);
  return shape;
}

/// log p with gradient 0 where p is 0, so that an incoming 0 does not become NaN.
Tensor safe_log(const Tensor& p) {
  const Tensor never = eq(p, 0);
  return masked_fill(log(masked_fill(p, never, 1)), never, -kInf);
}

/// p * values, but 0 where p is 0, even if the value there is infinite or NaN.
Tensor weighted(const Tensor& p, const Tensor& values) {
  return p * masked_fill(values, eq(p, 0), 0);
}

const Tensor& one_of(const char* name, const LogitsOrProbs& x) {
  check(x.logits.defined() != x.probs.defined(), "{}: give either logits or probs", name);
  const Tensor& given = x.logits.defined() ? x.logits : x.probs;
  check_float(name, given);
  refuse(name, "a parameter is NaN", isnan(given), given);
  return given;
}

/// In a row with logits of +inf, these become 0 and all others become -inf.
Tensor finite_logits(const Tensor& logits) {
  const Tensor certain = eq(logits, kInf);
  if (any(certain).item<int>() == 0) return logits;
  const Tensor settled = where(certain, zeros_like(logits), -kInf);
  return where(any(certain, -1, true), settled, logits);
}

}  // namespace

Categorical::Categorical(const LogitsOrProbs& parameters) {
  const char* name = "Categorical";
  const Tensor& x = one_of(name, parameters);
  check(x.ndim() >= 1 && x.size(-1) >= 1, "{}: needs parameters (..., K) with K >= 1, got {}", name,
        x.shape());
  const bool of_logits = parameters.logits.defined();
  if (!of_logits) {
    refuse(name, "probabilities are finite and at least 0", logical_or(lt(x, 0), eq(x, kInf)), x);
    given_ = x;
  }
  const Tensor top = amax(x.detach(), -1);
  refuse(name, "a row has no possible class", eq(top, of_logits ? -kInf : 0.0), top);
  if (of_logits) {
    log_probs_ = log_softmax(finite_logits(x), -1);
    probs_ = exp(log_probs_);
  } else {
    probs_ = x / sum(x, -1, true);
    log_probs_ = safe_log(probs_);
  }
}

Shape Categorical::batch_shape() const {
  return Shape(probs_.shape().begin(), probs_.shape().end() - 1);
}

Tensor Categorical::sample(Rng& rng, const Shape& shape) const {
  NoGradGuard guard;
  const Shape out = joined(shape, batch_shape());
  if (numel(out) == 0) return zeros(out, DType::i64);
  const int64_t rows = numel(batch_shape());
  const Tensor weights = reshape(probs_.detach(), {rows, classes()});
  return reshape(transpose(multinomial(weights, numel(shape), rng, true), 0, 1), out);
}

Tensor Categorical::log_prob(const Tensor& x) const {
  check_defined("Categorical::log_prob", x);
  check(!is_float(x.dtype()), "Categorical::log_prob: classes are i64, got {}; convert with .to()",
        x.dtype());
  const Tensor index = x.to(DType::i64);
  broadcast_shapes("Categorical::log_prob", index.shape(),
                   batch_shape());  // an error with its name
  refuse("Categorical::log_prob", "a class is outside [0, K)",
         logical_or(lt(index, 0), ge(index, classes())), index);
  const int axes = std::max(index.ndim() + 1, probs_.ndim());
  auto with_axes = [&](const Tensor& t) {
    return reshape(t, joined(Shape(Dims::filled(axes - t.ndim(), 1)), t.shape()));
  };
  const Tensor at = with_axes(unsqueeze(index, -1));
  auto taken = [&](const Tensor& t) { return squeeze(take_along_axis(with_axes(t), at, -1), -1); };
  // For given probs, the gradients of the classes not chosen stay finite.
  return given_.defined() ? log(taken(given_)) - log(sum(given_, -1)) : taken(log_probs_);
}

Tensor Categorical::entropy() const { return -sum(weighted(probs_, log_probs_), -1); }

Bernoulli::Bernoulli(const LogitsOrProbs& parameters) {
  const Tensor& x = one_of("Bernoulli", parameters);
  if (parameters.logits.defined()) {
    logits_ = x;
    one_ = sigmoid(x);
    zero_ = sigmoid(-x);
    log_one_ = log_sigmoid(x);
    log_zero_ = log_sigmoid(-x);
    return;
  }
  refuse("Bernoulli", "a probability is outside [0, 1]", logical_or(lt(x, 0), gt(x, 1)), x);
  one_ = x;
  zero_ = 1 - x;
  log_one_ = safe_log(x);
  const Tensor certain = eq(x, 1);
  log_zero_ = masked_fill(log1p(-masked_fill(x, certain, 0)), certain, -kInf);
}

Tensor Bernoulli::sample(Rng& rng, const Shape& shape) const {
  NoGradGuard guard;
  const Tensor even = uniform(joined(shape, batch_shape()), 0, 1, rng, one_.dtype());
  return lt(even, one_).to(one_.dtype());
}

Tensor Bernoulli::log_prob(const Tensor& x) const {
  check_defined("Bernoulli::log_prob", x);
  const Tensor is_one = ne(x, 0);
  refuse("Bernoulli::log_prob", "a value is neither 0 nor 1", logical_and(is_one, ne(x, 1)), x);
  if (logits_.defined()) return log_sigmoid(where(is_one, logits_, -logits_));
  return log(where(is_one, one_, 1)) + log1p(-where(is_one, 0, one_));
}

Tensor Bernoulli::entropy() const {
  return -(weighted(one_, log_one_) + weighted(zero_, log_zero_));
}

Normal::Normal(const Tensor& mean, const Tensor& stddev) {
  check_defined("Normal", mean, stddev);
  check_float("Normal", mean);
  check(mean.dtype() == stddev.dtype(),
        "Normal: types differ: mean {}, stddev {}; convert one with .to()", mean.dtype(),
        stddev.dtype());
  refuse("Normal", "a parameter is NaN", isnan(mean), mean);
  refuse("Normal", "a standard deviation is not above 0", logical_not(gt(stddev, 0)), stddev);
  const Shape shape = broadcast_shapes("Normal", mean.shape(), stddev.shape());
  mean_ = expand(mean, shape);
  stddev_ = expand(stddev, shape);
}

Tensor Normal::sample(Rng& rng, const Shape& shape) const {
  NoGradGuard guard;
  return rsample(rng, shape);
}

Tensor Normal::rsample(Rng& rng, const Shape& shape) const {
  return mean_ + stddev_ * randn(joined(shape, batch_shape()), rng, mean_.dtype());
}

Tensor Normal::log_prob(const Tensor& x) const {
  check_defined("Normal::log_prob", x);
  check(x.dtype() == mean_.dtype(),
        "Normal::log_prob: x is {}, the distribution's parameters {}; convert one with .to()",
        x.dtype(), mean_.dtype());
  return square((x - mean_) / stddev_) * -0.5 - log(stddev_) - kLogRoot2Pi;
}

Tensor Normal::entropy() const { return log(stddev_) + (0.5 + kLogRoot2Pi); }

Tensor kl_divergence(const Categorical& p, const Categorical& q) {
  check(p.classes() == q.classes(), "kl_divergence: Categoricals of {} and {} classes", p.classes(),
        q.classes());
  return sum(weighted(p.probs(), p.log_probs() - q.log_probs()), -1);
}

Tensor kl_divergence(const Bernoulli& p, const Bernoulli& q) {
  return weighted(p.one_, p.log_one_ - q.log_one_) + weighted(p.zero_, p.log_zero_ - q.log_zero_);
}

// (r^2 + t^2 - 1) / 2 - log r with r = sigma_p / sigma_q, t = (mu_p - mu_q) / sigma_q.
Tensor kl_divergence(const Normal& p, const Normal& q) {
  const Tensor r = p.stddev() / q.stddev(), t = (p.mean() - q.mean()) / q.stddev();
  return 0.5 * ((r - 1) * (r + 1) + square(t)) - log(r);
}

}  // namespace tern::nn
