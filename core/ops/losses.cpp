// Losses made of other ops. Both tensors have the same shape: a silent broadcast of (N, 1) with
// (N) is the classic mistake here.
#include "tern/core/ops/reduction.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

void check_same_shape(const char* op, const Tensor& x, const Tensor& y) {
  check(x.shape() == y.shape(), "{}: shapes {} and {} differ; reshape or expand one of them", op,
        x.shape(), y.shape());
}

Tensor reduced(const Tensor& losses, Reduction reduction) {
  if (reduction == Reduction::none) return losses;
  return reduction == Reduction::sum ? sum(losses) : mean(losses);
}

}  // namespace

Tensor mse_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  check_defined("mse_loss", x, y);
  check_same_shape("mse_loss", x, y);
  return reduced(square(x - y), reduction);
}

Tensor l1_loss(const Tensor& x, const Tensor& y, Reduction reduction) {
  check_defined("l1_loss", x, y);
  check_same_shape("l1_loss", x, y);
  return reduced(abs(x - y), reduction);
}

// d^2 / (2 beta) where |d| < beta, else |d| - beta / 2.
Tensor smooth_l1_loss(const Tensor& x, const Tensor& y, double beta, Reduction reduction) {
  check_defined("smooth_l1_loss", x, y);
  check(beta >= 0, "smooth_l1_loss: beta must not be negative, got {}", beta);
  if (beta == 0) return l1_loss(x, y, reduction);
  check_same_shape("smooth_l1_loss", x, y);
  Tensor d = x - y, a = abs(d);
  return reduced(where(lt(a, beta), square(d) * (0.5 / beta), a - 0.5 * beta), reduction);
}

// -[pos y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))] = (1 - y) x + (1 + (pos - 1) y)
// softplus(-x)
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceOptions& options) {
  check_defined("bce_with_logits", logits, target);
  check_same_shape("bce_with_logits", logits, target);
  Tensor positive = softplus(-logits);
  if (options.pos_weight.defined()) positive = positive * (1 + (options.pos_weight - 1) * target);
  Tensor losses = (1 - target) * logits + positive;
  if (options.weight.defined()) losses = losses * options.weight;
  return reduced(losses, options.reduction);
}

Tensor kl_div(const Tensor& log_probs, const Tensor& target, const KlDivOptions& options) {
  check_defined("kl_div", log_probs, target);
  check_same_shape("kl_div", log_probs, target);
  Tensor losses;
  if (options.log_target) {
    losses = exp(target) * (target - log_probs);
  } else {  // where the target is 0, neither logarithm counts, nor has a gradient
    Tensor none = le(target, 0);
    Tensor log_target = log(masked_fill(target, none, 1));
    losses = masked_fill(target, none, 0) * (log_target - masked_fill(log_probs, none, 0));
  }
  if (!options.batch_mean) return reduced(losses, options.reduction);
  check(losses.ndim() > 0, "kl_div: batch_mean needs an axis, got a tensor without axes");
  return sum(losses) / losses.size(0);
}

}  // namespace tern
