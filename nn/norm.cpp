// Layer, RMS, group, batch and instance norms: initial values, running statistics, and calls of the
// fused ops.
#include "tern/nn/norm.h"

#include "tern/core/tape/autograd.h"
#include "tern/core/tape/op.h"

namespace tern::nn {
namespace {

constexpr double kEps = 1e-5, kRmsEps = 0x1p-23;  // PyTorch's

void start(const Shape& shape, const NormOptions& o, Parameter& weight, Parameter& bias) {
  check(o.offset == 0, "norm: an offset ({}) is for RmsNorm; leave it out", o.offset);
  if (!o.affine) return;
  weight = Parameter(ones(shape));
  if (o.bias == Bias::yes) bias = Parameter(zeros(shape));
}

AddNormOptions options_of(double eps, const Dropout& dropout) {
  return {.eps = eps, .dropout = dropout.rate(), .rng = &dropout.rng};
}

}  // namespace

LayerNorm::LayerNorm(const Shape& s, const NormOptions& o) : shape(s), eps(o.eps.value_or(kEps)) {
  start(s, o, weight, bias);
}

Tensor LayerNorm::of_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const {
  return add_layer_norm(x, residual, shape, weight, bias, options_of(eps, dropout));
}

SumAndNorm LayerNorm::with_sum(const Tensor& x, const Tensor& residual,
                               const Dropout& dropout) const {
  return sum_and_layer_norm(x, residual, shape, weight, bias, options_of(eps, dropout));
}

RmsNorm::RmsNorm(const Shape& s, const NormOptions& o)
    : shape(s), eps(o.eps.value_or(kRmsEps)), offset(o.offset) {
  if (o.affine) weight = Parameter(full(s, 1 - offset));
}

Tensor RmsNorm::factor() const {
  return offset != 0 && weight.defined() ? weight + offset : Tensor(weight);
}

Tensor RmsNorm::of_sum(const Tensor& x, const Tensor& residual, const Dropout& dropout) const {
  return add_rms_norm(x, residual, shape, factor(), options_of(eps, dropout));
}

SumAndNorm RmsNorm::with_sum(const Tensor& x, const Tensor& residual,
                             const Dropout& dropout) const {
  return sum_and_rms_norm(x, residual, shape, factor(), options_of(eps, dropout));
}

GroupNorm::GroupNorm(int64_t g, int64_t channels, const NormOptions& o)
    : groups(g), eps(o.eps.value_or(kEps)) {
  check(g > 0 && channels % g == 0, "GroupNorm: {} groups do not divide {} channels", g, channels);
  start({channels}, o, weight, bias);
}

detail::TrackedNorm::TrackedNorm(int64_t channels, double e, bool affine, bool tracks) : eps(e) {
  start({channels}, {.affine = affine}, weight, bias);
  if (!tracks) return;
  running_mean = Buffer(zeros({channels}));
  running_var = Buffer(ones({channels}));
  num_batches_tracked = Buffer(zeros({}, DType::i64));
}

BatchNorm::BatchNorm(int64_t channels, const BatchNormConfig& c)
    : TrackedNorm(channels, c.eps, c.affine, c.track_running_stats), momentum(c.momentum) {
  if (!c.scale) weight = Parameter();
}

Tensor BatchNorm::normalise(const Tensor& x) const {
  const bool tracked = running_mean.defined();
  double share = momentum.value_or(0);
  const bool counts = training && tracked && !recomputing();
  if (counts && !momentum) share = 1 / (num_batches_tracked.tensor().item() + 1);
  const Tensor y = batch_norm(x, running_mean, running_var, weight, bias,
                              {.training = training || !tracked, .momentum = share, .eps = eps});
  if (counts && x.numel() > 0) {
    NoGradGuard no_grad;
    add_(num_batches_tracked, ones({}, DType::i64));
  }
  return y;
}

Tensor BatchNorm1d::operator()(const Tensor& x) const {
  ModuleScope module(weight.defined() ? weight : bias);
  check(x.ndim() == 2 || x.ndim() == 3, "BatchNorm1d: needs (N, C) or (N, C, L), got {}",
        x.shape());
  return normalise(x);
}

Tensor BatchNorm2d::operator()(const Tensor& x) const {
  ModuleScope module(weight.defined() ? weight : bias);
  check(x.ndim() == 4, "BatchNorm2d: needs (N, C, H, W), got {}", x.shape());
  return normalise(x);
}

Tensor BatchNorm3d::operator()(const Tensor& x) const {
  ModuleScope module(weight.defined() ? weight : bias);
  check(x.ndim() == 5, "BatchNorm3d: needs (N, C, D, H, W), got {}", x.shape());
  return normalise(x);
}

InstanceNorm::InstanceNorm(int64_t c, const InstanceNormConfig& o)
    : TrackedNorm(c, o.eps, o.affine, o.track_running_stats), channels(c), momentum(o.momentum) {}

Tensor InstanceNorm::normalise(const char* layer, const Tensor& x, int axes) const {
  ModuleScope module(weight.defined() ? weight : bias);
  check(x.ndim() == axes && x.size(1) == channels,
        "{}: needs {} axes, the second of {} channels, got {}", layer, axes, channels, x.shape());
  return instance_norm(
      x, running_mean, running_var, weight, bias,
      {.use_input_stats = training || !running_mean.defined(), .momentum = momentum, .eps = eps});
}

}  // namespace tern::nn
