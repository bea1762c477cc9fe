// Normalisation of channels over the batch (Ioffe & Szegedy 2015).
#include "tern/core/ops/composed.h"
#include "tern/core/ops/fused.h"
#include "tern/core/ops/normalisation/layer_norm.h"
#include "tern/core/ops/reduction/reduction.h"

namespace tern {
namespace {

using detail::by_channel;

Dims other_axes(const Tensor& x) {
  Dims axes(0);
  for (int a = 2; a < x.ndim(); ++a) axes.push_back(a);
  return axes;
}

// (N, C, ...) for the kernels: N, C, and the product of the other sizes.
struct Sizes {
  explicit Sizes(const Tensor& x)
      : batch(x.size(0)),
        channels(x.size(1)),
        rest(numel(Shape(x.shape().begin() + 2, x.shape().end()))) {}
  int64_t batch, channels, rest;
};

Gradients composed_gradients(const Tensor& dy, const Tensor& x, const Tensor& weight, double eps) {
  auto fn = [&](const std::vector<Tensor>& in) {
    return composed::batch_norm(in[0], in[1], {}, eps);
  };
  Gradients g = detail::composed_gradients(fn, {x, weight}, dy);
  g.push_back(sum(dy, other_axes(x)));  // bias
  return g;
}

Gradients fused_gradients(Consumed dy, const Tensor& x, const Tensor& weight, const Tensor& mean,
                          const Tensor& rstd) {
  dy.make_contiguous();
  const Tensor& d = dy.get();
  const Sizes s(x);
  Fresh dx = dy.reuse(), dweight(weight.shape(), d.dtype()), dbias(weight.shape(), d.dtype());
  dispatch_float(d.dtype(), "batch_norm", [&]<class T>() {
    kernels::batch_norm_backward(d.data<T>(), x.data<T>(), weight.data<T>(), mean.data<T>(),
                                 rstd.data<T>(), dx.data<T>(), dweight.data<T>(), dbias.data<T>(),
                                 s.batch, s.channels, s.rest);
  });
  return {not_differentiable(dx), not_differentiable(dweight), not_differentiable(dbias)};
}

// running = (1 - momentum) running + momentum batch; the variance is unbiased.
void update(const Tensor& running, const Tensor& batch, double scale, double momentum) {
  if (!running.defined() || recomputing()) return;
  NoGradGuard guard;
  if (momentum == 1)  // 0 * infinity would be NaN
    fill_(running, 0);
  else
    mul_(running, 1 - momentum);
  add_(running, batch.to(running.dtype()), momentum * scale);
}

// Normalises contiguous x and updates the running statistics.
Tensor normalise_batch(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                       const Tensor& weight, const Tensor& bias, const BatchNormOptions& options) {
  Op op("batch_norm", x, weight, bias);
  const Sizes s(x);
  Fresh y(x.shape(), x.dtype()), mean(s.channels, x.dtype()), var(s.channels, x.dtype()),
      rstds(s.channels, x.dtype());
  dispatch_float(x.dtype(), "batch_norm", [&]<class T>() {
    kernels::batch_norm(x.data<T>(), weight.data<T>(), bias.data<T>(), options.eps, y.data<T>(),
                        mean.data<T>(), var.data<T>(), rstds.data<T>(), s.batch, s.channels,
                        s.rest);
  });
  Tensor m = not_differentiable(mean), v = not_differentiable(var);
  Tensor rstd = not_differentiable(rstds);
  const double count = static_cast<double>(s.batch * s.rest);
  if (count > 0) {
    update(running_mean, m, 1, options.momentum);
    update(running_var, v, count / (count - 1), options.momentum);
  }
  auto vjp = [eps = options.eps, x = save(x), w = save(weight), m, rstd](Consumed dy) {
    if (grad_enabled()) return composed_gradients(dy, x.get(), w.get(), eps);
    return fused_gradients(std::move(dy), x.get(), w.get(), m, rstd);
  };
  return op.record(y, vjp);
}

}  // namespace

// Statistics are over all axes except the channels'.
Tensor composed::batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const Dims axes = other_axes(x);
  Tensor centred = x - mean(x, axes, true);
  Tensor y = centred * rsqrt(mean(square(centred), axes, true) + eps);
  if (weight.defined()) y = y * by_channel(weight, x);
  return bias.defined() ? y + by_channel(bias, x) : y;
}

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                  const Tensor& weight, const Tensor& bias, const BatchNormOptions& options) {
  Op op("batch_norm", x, weight, bias);
  check_defined("batch_norm", x);
  detail::check_channels("batch_norm", x, {&running_mean, &running_var, &weight, &bias});
  const int64_t channels = x.size(1);
  Tensor w = weight.defined() ? weight.contiguous() : ones(channels, x.dtype());
  Tensor b = bias.defined() ? bias.contiguous() : zeros(channels, x.dtype());
  if (!options.training) {
    check(running_mean.defined() && running_var.defined(),
          "batch_norm: evaluation needs running_mean and running_var; give both, or set .training "
          "= true");
    Tensor scale = w * rsqrt(running_var + options.eps);
    Tensor y = fused(
        "batch_norm", [](auto x, auto scale, auto shift) { return x * scale + shift; }, x,
        by_channel(scale, x), by_channel(b - running_mean * scale, x));
    op.note("scale", w, "shift", b, "mean", running_mean, "variance", running_var, "eps",
            options.eps, "result", y);
    return y;
  }
  check(Sizes(x).batch * Sizes(x).rest != 1,
        "batch_norm: training needs more than one value per channel, got {}", x.shape());
  if (x.ndim() > 2)
    return normalise_batch(x.contiguous(), running_mean, running_var, w, b, options);
  // x is (N, C): the kernels need the values of a channel together.
  Tensor columns = unsqueeze(transpose(x, 0, 1), 0).contiguous();  // (1, C, N)
  return transpose(squeeze(normalise_batch(columns, running_mean, running_var, w, b, options), 0),
                   0, 1);
}

}  // namespace tern
