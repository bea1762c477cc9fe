// Normalisation over the last axes, with or without taking away the mean, and over groups.
#include <optional>

#include "tern/core/kernels/normalise.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/reduction.h"

namespace tern {
namespace {

struct Norm {
  const char* name;
  bool centred;
  Shape shape;  // of the last axes, which are normalised
  double eps;

  int64_t size() const { return numel(shape); }
  Dims axes() const {
    Dims axes;
    for (int i = shape.size(); i > 0; --i) axes.push_back(-i);
    return axes;
  }
};

void check_arguments(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const int given = norm.shape.size(), first = x.ndim() - given;
  check(given > 0, "{}: needs the shape of at least one axis", norm.name);
  check(first >= 0 && Shape(x.shape().begin() + first, x.shape().end()) == norm.shape,
        "{}: the last axes of shape {} are not {}", norm.name, x.shape(), norm.shape);
  for (const Tensor* t : {&weight, &bias}) {
    if (!t->defined()) continue;
    check(t->shape() == norm.shape, "{}: normalises {}, but weight or bias has shape {}", norm.name,
          norm.shape, t->shape());
    check(t->dtype() == x.dtype(), "{}: x is {}, weight or bias {}; convert one with .to()",
          norm.name, x.dtype(), t->dtype());
  }
}

/// How far the rows of x, each `n` elements without gaps, lie apart; nothing where they do so
/// unevenly.
std::optional<int64_t> row_stride(const Layout& x, int given) {
  const int first = x.ndim() - given;
  if (x.numel() == 0) return 0;
  int64_t step = 1;
  for (int i = x.ndim() - 1; i >= first; --i) {
    if (x.shape[i] > 1 && x.strides[i] != step) return {};
    step *= x.shape[i];
  }
  std::optional<int64_t> stride;
  for (int i = first - 1; i >= 0; --i) {
    if (x.shape[i] == 1) continue;
    if (!stride) {
      stride = x.strides[i];
      step = *stride;
    }
    if (x.strides[i] != step) return {};
    step *= x.shape[i];
  }
  return stride.value_or(step);
}

Tensor composed_norm(const Norm& norm, const Tensor& x, const Tensor& weight) {
  const Dims axes = norm.axes();
  Tensor centred = norm.centred ? x - mean(x, axes, true) : x;
  Tensor y = centred * rsqrt(mean(square(centred), axes, true) + norm.eps);
  return weight.defined() ? y * weight : y;
}

Gradients composed_gradients(const Norm& norm, const Tensor& dy, const Tensor& x,
                             const Tensor& weight) {
  auto fn = [&](const std::vector<Tensor>& in) { return composed_norm(norm, in[0], in[1]); };
  Gradients g = detail::composed_gradients(fn, {x, weight}, dy);
  g.push_back(dy);  // of the bias
  return g;
}

Gradients fused_gradients(const Norm& norm, Consumed dy, const Tensor& x, const Tensor& weight,
                          const Tensor& mean, const Tensor& rstd, bool shares) {
  dy.make_contiguous();
  const Tensor& d = dy.get();
  const int64_t stride = *row_stride(x.layout(), norm.shape.size());
  Fresh dx = dy.reuse();
  Fresh dweight(shares ? norm.shape : Shape{0}, d.dtype());
  Fresh dbias(dweight.shape(), d.dtype());
  dispatch_float(d.dtype(), norm.name, [&]<class T>() {
    kernels::layer_norm_backward(d.data<T>(), x.data<T>(), stride, weight.data<T>(),
                                 norm.centred ? mean.data<T>() : nullptr, rstd.data<T>(),
                                 dx.data<T>(), shares ? dweight.data<T>() : nullptr,
                                 shares ? dbias.data<T>() : nullptr, rstd.numel(), norm.size());
  });
  Gradients grads{not_differentiable(dx), {}, {}};
  if (shares) {
    grads[1] = not_differentiable(dweight);
    grads[2] = not_differentiable(dbias);
  }
  return grads;
}

struct Statistics {
  Fresh y, mean, rstd;
};

/// REQUIRES: row_stride() of x; weight and bias are contiguous.
Statistics forward(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const int64_t n = norm.size(), stride = *row_stride(x.layout(), norm.shape.size()),
                rows = numel(Shape(x.shape().begin(), x.shape().end() - norm.shape.size()));
  Statistics s{Fresh(x.shape(), x.dtype()), Fresh(rows, x.dtype()), Fresh(rows, x.dtype())};
  dispatch_float(x.dtype(), norm.name, [&]<class T>() {
    kernels::layer_norm(x.data<T>(), stride, weight.data<T>(), bias.data<T>(), s.y.data<T>(),
                        norm.centred ? s.mean.data<T>() : nullptr, s.rstd.data<T>(), rows, n,
                        norm.eps);
  });
  return s;
}

Tensor normalise(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Op op(norm.name, x, weight, bias);
  check_arguments(norm, x, weight, bias);
  // Rows at an even distance, as a half of the channels, are read where they lie.
  Tensor c = row_stride(x.layout(), norm.shape.size()) ? x : x.contiguous();
  Tensor w = weight.defined() ? weight.contiguous() : ones(norm.shape, x.dtype());
  Tensor b = bias.defined() ? bias.contiguous() : zeros(norm.shape, x.dtype());
  const Statistics s = forward(norm, c, w, b);
  if (detail::recomputing() && recording({c, w, b}))
    recompute_by(s.y, [norm, x = save(c), w = save(w), b = save(b)] {
      return forward(norm, x.get(), w.get(), b.get()).y;
    });
  auto vjp = [norm, x = save(c), w = save(w), mean = not_differentiable(s.mean),
              rstd = not_differentiable(s.rstd)](Consumed dy, const Wants& wants) {
    if (grad_enabled()) return composed_gradients(norm, dy, x.get(), w.get());
    return fused_gradients(norm, std::move(dy), x.get(), w.get(), mean, rstd, wants[1] || wants[2]);
  };
  return op.record(s.y, {c, w, b}, vjp);
}

}  // namespace

Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  check_defined("layer_norm", x);
  return normalise({"layer_norm", true, shape, eps}, x, weight, bias);
}

Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight, double eps) {
  check_defined("rms_norm", x);
  return normalise({"rms_norm", false, shape, eps}, x, weight, {});
}

Tensor composed::layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight,
                            const Tensor& bias, double eps) {
  Tensor y = composed_norm({"layer_norm", true, shape, eps}, x, weight);
  return bias.defined() ? y + bias : y;
}

Tensor composed::rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight, double eps) {
  return composed_norm({"rms_norm", false, shape, eps}, x, weight);
}

Tensor composed::group_norm(const Tensor& x, int64_t groups, const Tensor& weight,
                            const Tensor& bias, double eps) {
  const int64_t n = x.size(0);
  Tensor rows = reshape(x, {n, groups, x.numel() / (n * groups)});
  Tensor y = reshape(composed::layer_norm(rows, rows.size(-1), {}, {}, eps), x.shape());
  Shape of_channels = Dims::filled(x.ndim() - 1, 1);
  of_channels[0] = x.size(1);
  if (weight.defined()) y = y * reshape(weight, of_channels);
  return bias.defined() ? y + reshape(bias, of_channels) : y;
}

// A layer_norm of every group without weights, then weight and bias of the channels.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  check_defined("group_norm", x);
  check(x.ndim() >= 2, "group_norm: needs (N, C, ...), got shape {}", x.shape());
  const int64_t n = x.size(0), channels = x.size(1);
  check(groups > 0 && channels % groups == 0, "group_norm: {} channels do not make {} groups",
        channels, groups);
  const int64_t each = x.numel() / std::max<int64_t>(n * groups, 1);
  Tensor y = normalise({"group_norm", true, each, eps}, reshape(x, {n, groups, each}), {}, {});
  y = reshape(y, x.shape());
  Shape of_channels = Dims::filled(x.ndim() - 1, 1);
  of_channels[0] = channels;
  for (const Tensor* t : {&weight, &bias})
    check(!t->defined() || t->shape() == Shape(channels),
          "group_norm: {} channels, but weight or bias has shape {}", channels,
          t->defined() ? t->shape() : Shape());
  if (weight.defined()) y = y * reshape(weight, of_channels);
  if (bias.defined()) y = y + reshape(bias, of_channels);
  return y;
}

}  // namespace tern
