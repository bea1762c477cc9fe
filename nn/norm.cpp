#include "tern/nn/norm.h"

#include "tern/core/tape/autograd.h"

namespace tern::nn {
namespace {

void start(const Shape& shape, const NormOptions& o, Parameter& weight, Parameter& bias) {
  if (!o.affine) return;
  weight = Parameter(ones(shape));
  if (o.bias == Bias::yes) bias = Parameter(zeros(shape));
}

AddNormOptions options_of(double eps, const Dropout& dropout) {
  return {.eps = eps, .dropout = dropout.rate(), .rng = &dropout.rng};
}

}  // namespace

LayerNorm::LayerNorm(const Shape& s, const NormOptions& o) : shape(s), eps(o.eps) {
  start(s, o, weight, bias);
}

Tensor LayerNorm::of_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const {
  return add_layer_norm(x, residual, shape, weight, bias, options_of(eps, dropout));
}

SumAndNorm LayerNorm::with_sum(const Tensor& x, const Tensor& residual,
                               const Dropout& dropout) const {
  return sum_and_layer_norm(x, residual, shape, weight, bias, options_of(eps, dropout));
}

RmsNorm::RmsNorm(const Shape& s, const NormOptions& o) : shape(s), eps(o.eps) {
  if (o.affine) weight = Parameter(ones(s));
}

Tensor RmsNorm::of_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const {
  return add_rms_norm(x, residual, shape, weight, options_of(eps, dropout));
}

SumAndNorm RmsNorm::with_sum(const Tensor& x, const Tensor& residual,
                             const Dropout& dropout) const {
  return sum_and_rms_norm(x, residual, shape, weight, options_of(eps, dropout));
}

GroupNorm::GroupNorm(int64_t g, int64_t channels, const NormOptions& o) : groups(g), eps(o.eps) {
  check(g > 0 && channels % g == 0, "GroupNorm: {} groups do not divide {} channels", g, channels);
  start({channels}, o, weight, bias);
}

BatchNorm2d::BatchNorm2d(int64_t channels, const BatchNormConfig& c)
    : running_mean(zeros({channels})),
      running_var(ones({channels})),
      num_batches_tracked(zeros({}, DType::i64)),
      eps(c.eps),
      momentum(c.momentum) {
  start({channels}, {.affine = c.affine}, weight, bias);
}

Tensor BatchNorm2d::operator()(const Tensor& x) const {
  if (training) {
    NoGradGuard no_grad;
    add_(num_batches_tracked, ones({}, DType::i64));
  }
  return batch_norm(x, running_mean, running_var, weight, bias,
                    {.training = training, .momentum = momentum, .eps = eps});
}

}  // namespace tern::nn
