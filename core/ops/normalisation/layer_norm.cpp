// Normalisation over the last axes, with or without subtracting the mean, and over groups.
#include "tern/core/ops/normalisation/layer_norm.h"

#include <array>
#include <optional>

#include "tern/core/ops/composed.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/reduction/reduction.h"

namespace tern {
namespace {

using detail::Norm;

Dims axes_of(const Norm& norm) {
  Dims axes;
  for (int i = norm.shape.size(); i > 0; --i) axes.push_back(-i);
  return axes;
}

Tensor composed_norm(const Norm& norm, const Tensor& x, const Tensor& weight) {
  const Dims axes = axes_of(norm);
  Tensor centred = norm.centred ? x - mean(x, axes, true) : x;
  if (norm.centred) centred = centred - mean(centred, axes, true);  // removes the mean's rounding
  Tensor y = centred * rsqrt(mean(square(centred), axes, true) + norm.eps);
  return weight.defined() ? y * weight : y;
}

/// The distance between rows of x, which are its last `given` axes. Nothing if the distance varies
/// or rows are not contiguous.
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

/// The kernel's pass. REQUIRES: x has a row_stride().
detail::NormResult forward(const Norm& norm, const Tensor& x, const detail::NormWeights& w) {
  detail::NormResult r(norm, x.shape(), x.dtype());
  const int64_t stride = *row_stride(x.layout(), norm.shape.size());
  dispatch_float(x.dtype(), norm.name,
                 [&]<class T>() { kernels::layer_norm(r.call<T>(norm, x.data<T>(), stride, w)); });
  return r;
}

Tensor normalise(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  Op op(norm.name, x, weight, bias);
  check_norm(norm, x, weight, bias);
  op.note("axes", norm.shape.size(), "eps", norm.eps);
  // Rows at a constant distance, such as half of the channels, are read in place.
  const Tensor c = row_stride(x.layout(), norm.shape.size()) ? x : x.contiguous();
  const detail::NormWeights w = weights_of(norm, x.dtype(), weight, bias);
  const detail::NormResult r = forward(norm, c, w);
  if (recording({c, w.weight, w.bias})) detail::recompute_norm(norm, r.y, c, w);
  auto vjp = [saved = detail::SavedNorm(norm, c, w, r)](Consumed dy, const Wants& wants) {
    if (grad_enabled()) return saved.recorded(dy);
    return saved.fused(std::move(dy), wants[1] || wants[2], detail::gathered(wants));
  };
  return op.record(r.y, {c, w.weight, w.bias}, std::move(vjp));
}

}  // namespace

Tensor detail::gathered(const Wants& wants) { return wants[0] ? wants.accumulator(0) : Tensor(); }

void detail::check_channels(const char* op, const Tensor& x,
                            std::initializer_list<const Tensor*> given) {
  check(x.ndim() >= 2, "{}: needs (N, C, ...), got shape {}", op, x.shape());
  check(is_float(x.dtype()), "{}: needs a floating tensor, got {}; convert with .to()", op,
        x.dtype());
  for (const Tensor* t : given) {
    if (!t->defined()) continue;
    check(t->shape() == Shape(x.size(1)),
          "{}: {} channels, but a weight, bias or statistic has shape {}", op, x.size(1),
          t->shape());
    check(t->dtype() == x.dtype(),
          "{}: x is {}, a weight, bias or statistic {}; convert one with "
          ".to()",
          op, x.dtype(), t->dtype());
  }
}

Tensor detail::by_channel(const Tensor& t, const Tensor& x) {
  Shape shape = Dims::filled(x.ndim() - 1, 1);
  shape[0] = x.size(1);
  return reshape(t, shape);
}

void detail::check_norm(const Norm& norm, const Tensor& x, const Tensor& weight,
                        const Tensor& bias) {
  const int given = norm.shape.size(), first = x.ndim() - given;
  check(given > 0, "{}: the normalised shape is empty; give the size of at least one axis",
        norm.name);
  check(first >= 0 && Shape(x.shape().begin() + first, x.shape().end()) == norm.shape,
        "{}: the last axes of shape {} must be {}", norm.name, x.shape(), norm.shape);
  for (const Tensor* t : {&weight, &bias}) {
    if (!t->defined()) continue;
    check(t->shape() == norm.shape,
          "{}: the normalised shape is {}, but weight or bias has shape {}", norm.name, norm.shape,
          t->shape());
    check(t->dtype() == x.dtype(), "{}: x is {}, weight or bias {}; convert one with .to()",
          norm.name, x.dtype(), t->dtype());
  }
}

detail::NormWeights detail::weights_of(const Norm& norm, DType type, const Tensor& weight,
                                       const Tensor& bias) {
  return {weight.defined() ? weight.contiguous() : ones(norm.shape, type),
          bias.defined() ? bias.contiguous() : zeros(norm.shape, type)};
}

detail::NormResult::NormResult(const Norm& norm, const Shape& shape, DType type)
    : rows(numel(Shape(shape.begin(), shape.end() - norm.shape.size()))),
      y(shape, type),
      mean(rows, type),
      rstd(rows, type) {}

detail::SavedNorm::SavedNorm(const Norm& norm, const Tensor& x, const NormWeights& weights,
                             const NormResult& r)
    : norm_(norm),
      x_(save(x)),
      weight_(save(weights.weight)),
      mean_(not_differentiable(r.mean)),
      rstd_(not_differentiable(r.rstd)) {}

void detail::recompute_norm(const Norm& norm, const Fresh& y, const Tensor& x,
                            const NormWeights& w) {
  if (!recomputing()) return;
  const std::array from = {save(x), save(w.weight), save(w.bias)};
  recompute_by(y, from, [norm](const std::vector<Tensor>& t) {
    return forward(norm, t[0], {t[1], t[2]}).y;
  });
}

Gradients detail::SavedNorm::recorded(const Tensor& dy) const {
  auto fn = [&](const std::vector<Tensor>& in) { return composed_norm(norm_, in[0], in[1]); };
  Gradients g = detail::composed_gradients(fn, {x_.get(), weight_.get()}, dy);
  g.push_back(dy);  // bias
  return g;
}

Gradients detail::SavedNorm::fused(Consumed dy, bool shares, const Tensor& sum,
                                   const Fresh* dropped, const kernels::DropMask& mask) const {
  dy.make_contiguous();
  const Tensor &d = dy.get(), x = x_.get(), weight = weight_.get();
  Fresh dx = sum.defined() ? Fresh::adopt(sum) : dy.reuse();
  Fresh dweight(shares ? norm_.shape : Shape{0}, d.dtype());
  Fresh dbias(dweight.shape(), d.dtype());
  dispatch_float(d.dtype(), norm_.name, [&]<class T>() {
    kernels::layer_norm_backward<T>({.dy = d.data<T>(),
                                     .x = x.data<T>(),
                                     .weight = weight.data<T>(),
                                     .mean = norm_.centred ? mean_.data<T>() : nullptr,
                                     .rstd = rstd_.data<T>(),
                                     .dx = dx.data<T>(),
                                     .dweight = shares ? dweight.data<T>() : nullptr,
                                     .dbias = shares ? dbias.data<T>() : nullptr,
                                     .rows = rstd_.numel(),
                                     .n = norm_.size(),
                                     .x_stride = *row_stride(x.layout(), norm_.shape.size()),
                                     .adds = sum.defined(),
                                     .dropped = dropped ? dropped->data<T>() : nullptr,
                                     .mask = mask});
  });
  Gradients grads(3);
  if (!sum.defined()) grads[0] = not_differentiable(dx);
  if (shares) {
    grads[1] = not_differentiable(dweight);
    grads[2] = not_differentiable(dbias);
  }
  return grads;
}

Tensor detail::norm_definition(const Norm& norm, const Tensor& x, const Tensor& weight,
                               const Tensor& bias) {
  Tensor y = composed_norm(norm, x, weight);
  return bias.defined() ? y + bias : y;
}

Tensor layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight, const Tensor& bias,
                  double eps) {
  check_defined("layer_norm", x);
  return normalise({"layer_norm", true, shape, eps}, x, weight, bias);
}

Tensor rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight, double eps) {
  check_defined("rms_norm", x);
  if (!detail::composing()) return normalise({"rms_norm", false, shape, eps}, x, weight, {});
  Op op("rms_norm", x, weight);
  const Tensor y = composed::rms_norm(x, shape, weight, eps);
  op.note("axes", shape.size(), "eps", eps, "result", y);
  return y;
}

Tensor composed::layer_norm(const Tensor& x, const Shape& shape, const Tensor& weight,
                            const Tensor& bias, double eps) {
  return detail::norm_definition({"layer_norm", true, shape, eps}, x, weight, bias);
}

Tensor composed::rms_norm(const Tensor& x, const Shape& shape, const Tensor& weight, double eps) {
  return composed_norm({"rms_norm", false, shape, eps}, x, weight);
}

Tensor composed::group_norm(const Tensor& x, int64_t groups, const Tensor& weight,
                            const Tensor& bias, double eps) {
  const int64_t n = x.size(0);
  Tensor rows = reshape(x, {n, groups, x.numel() / (n * groups)});
  Tensor y = reshape(composed::layer_norm(rows, rows.size(-1), {}, {}, eps), x.shape());
  if (weight.defined()) y = y * detail::by_channel(weight, x);
  return bias.defined() ? y + detail::by_channel(bias, x) : y;
}

// Normalises every group without weights, then applies the channels' weight and bias.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias,
                  double eps) {
  Op op("group_norm", x, weight, bias);
  check_defined("group_norm", x);
  detail::check_channels("group_norm", x, {&weight, &bias});
  const int64_t n = x.size(0), channels = x.size(1);
  check(groups > 0 && channels % groups == 0,
        "group_norm: {} channels cannot be split into {} groups", channels, groups);
  const int64_t each = x.numel() / std::max<int64_t>(n * groups, 1);
  Tensor y = normalise({"layer_norm", true, each, eps}, reshape(x, {n, groups, each}), {}, {});
  y = reshape(y, x.shape());
  if (weight.defined()) y = y * detail::by_channel(weight, x);
  if (bias.defined()) y = y + detail::by_channel(bias, x);
  op.note("result", y);
  return y;
}

}  // namespace tern
