// Normalises each channel of each sample, as a batch_norm of one sample with N*C channels.
#include "tern/core/ops/normalisation/layer_norm.h"

namespace tern {
namespace {

/// Repeats (C) for every sample: (N*C).
Tensor each_sample(const Tensor& t, int64_t samples) {
  return t.defined() ? flatten(expand(t, {samples, t.numel()}), 0, 1) : t;
}

/// The same as a copy, for statistics that batch_norm updates; not part of the tape.
Tensor copy_for_each_sample(const Tensor& t, int64_t samples) {
  return t.defined() ? repeat(t.detach(), samples) : t;
}

/// Sets running to the mean over samples of the updated statistics.
void gather_samples(const Tensor& running, const Tensor& each, int64_t samples) {
  if (!running.defined() || samples == 0 || recomputing()) return;
  NoGradGuard guard;
  copy_(running, mean(reshape(each, {samples, running.numel()}), 0));
}

}  // namespace

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                     const Tensor& weight, const Tensor& bias, const InstanceNormOptions& o) {
  check_defined("instance_norm", x);
  Op op("instance_norm", x, weight, bias);
  check(x.ndim() >= 3, "instance_norm: needs (N, C, ...) with a spatial axis, got shape {}",
        x.shape());
  detail::check_channels("instance_norm", x, {&running_mean, &running_var, &weight, &bias});
  if (!o.use_input_stats)
    return batch_norm(x, running_mean, running_var, weight, bias, {.eps = o.eps});
  const int64_t n = x.size(0), c = x.size(1);
  Tensor rows = flatten(x, 2);
  check(rows.size(2) != 1, "instance_norm: needs more than one spatial element, got {}", x.shape());
  const Tensor mean_each = copy_for_each_sample(running_mean, n);
  const Tensor var_each = copy_for_each_sample(running_var, n);
  Tensor y = batch_norm(reshape(rows, {1, checked_product("instance_norm", n, c), rows.size(2)}),
                        mean_each, var_each, each_sample(weight, n), each_sample(bias, n),
                        {.training = true, .momentum = o.momentum, .eps = o.eps});
  gather_samples(running_mean, mean_each, n);
  gather_samples(running_var, var_each, n);
  y = reshape(y, x.shape());
  op.note("eps", o.eps, "result", y);
  return y;
}

}  // namespace tern
