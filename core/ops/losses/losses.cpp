// Losses of two tensors, made of other ops. Both must have the same shape: silently broadcasting
// (N, 1) with (N) is the classic mistake.
#include "tern/core/ops/losses/losses.h"

#include <cmath>
#include <numbers>

#include "tern/core/ops/elementwise/activations.h"
#include "tern/core/ops/fused.h"
#include "tern/core/ops/losses/loss_parts.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace {

using detail::check_same_shape;
using detail::reduced;
using detail::weighted;

void check_some_float(const char* op, const Tensor& x, const Tensor& y) {
  check(is_float(x.dtype()) || is_float(y.dtype()),
        "{}: needs a floating tensor, got {} and {}; convert with .to()", op, x.dtype(), y.dtype());
}

// (y - 1) log(1 - p) - y log p with logarithms clamped at -100; as in PyTorch dp = (p - y) / max(p
// (1 - p), 1e-12).
struct BinaryCrossEntropy {
  static constexpr const char* kName = "binary_cross_entropy";
  static constexpr Needs kNeedsA = Needs::both, kNeedsB = Needs::both;
  template <class T>
  static T bounded(const T& log_p) {
    using namespace formula;
    return maximum(log_p, Constant<T>(-100));
  }
  template <class T>
  T f(T p, T y) const {
    using namespace formula;
    return (y - T(1)) * bounded(log1p(-p)) - y * bounded(log(p));
  }
  template <class T>
  T dfa(const T& dy, const T& p, const T& y) const {
    using namespace formula;
    return dy * (p - y) / maximum((Constant<T>(1) - p) * p, Constant<T>(1e-12));
  }
  template <class T>
  T dfb(const T& dy, const T& p, const T&) const {
    using namespace formula;
    return dy * (bounded(log1p(-p)) - bounded(log(p)));
  }
};

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
  check_some_float("smooth_l1_loss", x, y);
  auto formula = [beta](auto a, auto b) {
    const auto d = a - b;
    const auto size = abs(d);
    return where(size < beta, square(d) * (0.5 / beta), size - 0.5 * beta);
  };
  return reduced(fused("smooth_l1_loss", formula, x, y), reduction);
}

// -[pos y log sigmoid(x) + (1 - y) log(1 - sigmoid(x))] = (1 - y) softplus(x) + pos y softplus(-x).
// No digits cancel in this sum of positive terms. Gradient: (1 - y) sigmoid(x) - pos y sigmoid(-x).
Tensor bce_with_logits(const Tensor& logits, const Tensor& target, const BceOptions& options) {
  check_defined("bce_with_logits", logits, target);
  check_same_shape("bce_with_logits", logits, target);
  const char* op = "bce_with_logits";
  Tensor positive = weighted(op, "pos_weight", target * softplus(-logits), options.pos_weight);
  Tensor losses = (1 - target) * softplus(logits) + positive;
  return reduced(weighted(op, "weight", losses, options.weight), options.reduction);
}

Tensor kl_div(const Tensor& log_probs, const Tensor& target, const KlDivOptions& options) {
  check_defined("kl_div", log_probs, target);
  check_same_shape("kl_div", log_probs, target);
  check(!options.batch_mean || options.reduction == Reduction::mean,
        "kl_div: batch_mean is a reduction of its own; leave .reduction out");
  Tensor losses;
  if (options.log_target) {
    losses = exp(target) * (target - log_probs);
  } else {  // where the target is 0, neither logarithm counts
    if (target.numel() > 0) {
      const double low = min(target.detach()).item();
      check(!(low < 0),
            "kl_div: the target must be probabilities, but one is {}; set log_target "
            "if it holds their logarithms",
            low);
    }
    Tensor none = le(target, 0);
    Tensor log_target = log(masked_fill(target, none, 1));
    losses = masked_fill(target, none, 0) * (log_target - masked_fill(log_probs, none, 0));
  }
  if (!options.batch_mean) return reduced(losses, options.reduction);
  check(losses.ndim() > 0, "kl_div: batch_mean needs an axis, got a tensor without axes");
  return sum(losses) / losses.size(0);
}

// d^2 / 2 where |d| <= delta, else delta (|d| - delta / 2).
Tensor huber_loss(const Tensor& x, const Tensor& y, const HuberOptions& o) {
  check_defined("huber_loss", x, y);
  check_same_shape("huber_loss", x, y);
  check_some_float("huber_loss", x, y);
  check(o.delta > 0, "huber_loss: delta must be positive, got {}", o.delta);
  auto formula = [delta = o.delta](auto a, auto b) {
    const auto d = a - b;
    const auto size = abs(d);
    return where(size <= delta, square(d) * 0.5, delta * (size - 0.5 * delta));
  };
  return reduced(fused("huber_loss", formula, x, y), o.reduction);
}

Tensor binary_cross_entropy(const Tensor& p, const Tensor& target,
                            const BinaryCrossEntropyOptions& options) {
  check_defined("binary_cross_entropy", p, target);
  check_same_shape("binary_cross_entropy", p, target);
  if (p.numel() > 0) {
    const double low = min(p.detach()).item(), high = max(p.detach()).item();
    check(low >= 0 && high <= 1,  // refuses NaN too
          "binary_cross_entropy: the input must be probabilities in [0, 1], it goes from {} to {}; "
          "use bce_with_logits for logits",
          low, high);
  }
  const Tensor losses = binary(p, target, BinaryCrossEntropy());
  return reduced(weighted("binary_cross_entropy", "weight", losses, options.weight),
                 options.reduction);
}

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, const Tensor& var,
                         const GaussianNllOptions& o) {
  check_defined("gaussian_nll_loss", x, target, var);
  check_same_shape("gaussian_nll_loss", x, target);
  check(o.eps > 0, "gaussian_nll_loss: eps must be positive, got {}", o.eps);
  Tensor v = var;
  if (v.ndim() > 0 && v.ndim() == x.ndim() - 1) v = unsqueeze(v, -1);  // one variance per row
  Shape row = x.shape();
  if (!row.empty()) row[row.size() - 1] = 1;
  check(v.ndim() == 0 || v.shape() == x.shape() || v.shape() == row,
        "gaussian_nll_loss: var of shape {} does not fit an input of shape {}; give one number, "
        "one number per row, or the shape of the input",
        var.shape(), x.shape());
  if (v.numel() > 0) {
    const double least = min(v.detach()).item();
    check(!(least < 0), "gaussian_nll_loss: a variance is negative: {}", least);
  }
  // A variance below eps gets the gradient at eps.
  Tensor short_of = maximum(v.detach(), o.eps) - v.detach();
  v = v + short_of;
  Tensor losses = 0.5 * (log(v) + square(x - target) / v);
  if (o.full) losses = losses + 0.5 * std::log(2 * std::numbers::pi);
  return reduced(losses, o.reduction);
}

Tensor gaussian_nll_loss(const Tensor& x, const Tensor& target, double var,
                         const GaussianNllOptions& options) {
  check_defined("gaussian_nll_loss", x, target);
  return gaussian_nll_loss(x, target, scalar(var, x.dtype()), options);
}

Tensor sigmoid_focal_loss(const Tensor& logits, const Tensor& target, const FocalOptions& o) {
  check_defined("sigmoid_focal_loss", logits, target);
  check_same_shape("sigmoid_focal_loss", logits, target);
  check(o.gamma >= 0 && o.alpha <= 1,
        "sigmoid_focal_loss: gamma must not be negative, alpha be at most 1; they are {} and {}",
        o.gamma, o.alpha);
  Tensor losses = bce_with_logits(logits, target, {.reduction = Reduction::none});
  if (o.gamma > 0) {  // 1 - p_t = p (1 - y) + (1 - p) y
    Tensor p = sigmoid(logits), away = p + (1 - 2 * p) * target;
    losses = losses * pow(away, o.gamma);
  }
  if (o.alpha >= 0) losses = losses * (o.alpha * target + (1 - o.alpha) * (1 - target));
  return reduced(losses, o.reduction);
}

}  // namespace tern
