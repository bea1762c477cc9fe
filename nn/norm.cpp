#include "tern/nn/norm.h"

#include "tern/core/tape/autograd.h"

namespace tern::nn {
namespace {

void start(const Shape& shape, const NormOptions& o, Parameter& weight, Parameter& bias) {
  if (!o.affine) return;
  weight = Parameter(ones(shape));
  if (o.bias == Bias::yes) bias = Parameter(zeros(shape));
}

}  // namespace

LayerNorm::LayerNorm(const Shape& s, const NormOptions& o) : shape(s), eps(o.eps) {
  start(s, o, weight, bias);
}

RmsNorm::RmsNorm(const Shape& s, const NormOptions& o) : shape(s), eps(o.eps) {
  if (o.affine) weight = Parameter(ones(s));
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
