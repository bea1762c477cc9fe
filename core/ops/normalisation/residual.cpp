// Sums of a residual and dropout(x), alone and with a norm, in one pass. Gradients of the norm are
// those of layer_norm.h. Rare cases use the single ops.
#include "tern/core/ops/normalisation/residual.h"

#include "tern/core/ops/composed.h"
#include "tern/core/ops/elementwise.h"
#include "tern/core/ops/normalisation/layer_norm.h"
#include "tern/core/ops/random/dropout.h"

namespace tern {
namespace {

using detail::Norm;
using kernels::DropMask;
using Mask = std::optional<DropMask>;

/// The gradients of residual + dropout(x): first x, then residual.
Gradients sum_gradients(const char* name, const Mask& mask, const Tensor& dy, const Wants& wants) {
  Gradients g(2);
  if (wants[0]) g[0] = mask ? detail::masked(name, Consumed(dy), *mask) : dy;
  if (wants[1]) g[1] = dy;
  return g;
}

/// Gives the sum a history of its own, because second derivatives pass through it.
Tensor with_history(const char* name, const Fresh& sum, const Tensor& x, const Tensor& residual,
                    const Mask& mask) {
  if (!recording({x, residual})) return not_differentiable(sum);
  auto vjp = [name, mask](const Tensor& dy, const Wants& wants) {
    return sum_gradients(name, mask, dy, wants);
  };
  detail::Ref<detail::Node> node(new detail::OpNode<decltype(vjp)>(name, sum, vjp));
  for (const Tensor* t : {&x, &residual}) detail::connect(*node, *t);
  sum.ref()->set_node(std::move(node));
  return not_differentiable(sum);
}

void check_operands(const char* name, const Tensor& x, const Tensor& residual) {
  check_defined(name, x, residual);
  check(x.dtype() == residual.dtype(), "{}: x is {}, the residual {}; convert one with .to()", name,
        x.dtype(), residual.dtype());
  broadcast_shapes(name, x.shape(), residual.shape());
}

/// Whether the residual expands x; single ops then compute it.
bool stretches(const char* name, const Tensor& x, const Tensor& residual) {
  return broadcast_shapes(name, x.shape(), residual.shape()) != x.shape();
}

Tensor stretched(const Tensor& residual, const Tensor& x) {
  return residual.shape() == x.shape() ? residual : expand(residual, x.shape());
}

/// The forward pass of an op in this file.
struct AddNorm {
  Norm norm;
  Tensor x, residual;  // contiguous
  detail::NormWeights w;
  Mask mask;
  Fresh sum;
  detail::NormResult r;

  AddNorm(const Norm& n, const Tensor& given, const Tensor& passed, const Tensor& weight,
          const Tensor& bias, const AddNormOptions& o)
      : norm(n),
        x(given.contiguous()),
        residual(stretched(passed, given).contiguous()),
        w(detail::weights_of(n, given.dtype(), weight, bias)),
        mask(detail::draw_mask(o.dropout, o.rng)),
        sum(x.shape(), x.dtype()),
        r(norm, x.shape(), x.dtype()) {
    dispatch_float(x.dtype(), norm.name, [&]<class T>() {
      kernels::add_layer_norm(x.data<T>(), residual.data<T>(), mask ? &*mask : nullptr,
                              sum.data<T>(), r.call<T>(norm, sum.data<T>(), norm.size(), w));
    });
  }
};

Norm checked(const Norm& norm, const Tensor& x, const Tensor& residual, const Tensor& weight,
             const Tensor& bias, const AddNormOptions& o) {
  check_operands(norm.name, x, residual);
  detail::check_norm(norm, x, weight, bias);
  detail::check_dropout(norm.name, o.dropout, o.rng);
  return norm;
}

Tensor norm_by_op(const Norm& norm, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return norm.centred ? layer_norm(x, norm.shape, weight, bias, norm.eps)
                      : rms_norm(x, norm.shape, weight, norm.eps);
}

/// The rare cases that single ops compute: everything is dropped, or x is expanded.
bool by_ops(const Norm& norm, const Tensor& x, const Tensor& residual, const AddNormOptions& o) {
  return o.dropout == 1 || stretches(norm.name, x, residual) || detail::composing();
}

SumAndNorm both_by_ops(const Norm& norm, const Tensor& x, const Tensor& residual,
                       const Tensor& weight, const Tensor& bias, const AddNormOptions& o) {
  Tensor sum = residual + (o.dropout > 0 ? dropout(x, o.dropout, *o.rng) : x);
  return {sum, norm_by_op(norm, sum, weight, bias)};
}

Tensor normalised(const Norm& norm, const Tensor& x, const Tensor& residual, const Tensor& weight,
                  const Tensor& bias, const AddNormOptions& o) {
  Op op(norm.name, x, residual, weight, bias);
  checked(norm, x, residual, weight, bias, o);
  if (by_ops(norm, x, residual, o)) return both_by_ops(norm, x, residual, weight, bias, o).norm;
  AddNorm a(norm, x, residual, weight, bias, o);
  const std::initializer_list<std::reference_wrapper<const Tensor>> inputs{a.x, a.residual,
                                                                           a.w.weight, a.w.bias};
  if (!recording(inputs)) return op.not_differentiable(a.r.y);
  const Tensor sum = with_history(norm.name, a.sum, a.x, a.residual, a.mask);
  detail::recompute_norm(norm, a.r.y, sum, a.w);
  auto vjp = [saved = detail::SavedNorm(norm, sum, a.w, a.r), name = norm.name, mask = a.mask](
                 Consumed dy, const Wants& wants) {
    Gradients g, of_sum;
    if (grad_enabled()) {
      g = saved.recorded(dy);
      of_sum = sum_gradients(name, mask, g[0], wants);
    } else {
      std::optional<Fresh> dx;
      if (mask && wants[0]) dx.emplace(dy.get().shape(), dy.get().dtype());
      g = saved.fused(std::move(dy), wants[2] || wants[3], {}, dx ? &*dx : nullptr,
                      mask.value_or(DropMask()));
      of_sum = {dx ? not_differentiable(*dx) : g[0], g[0]};  // the engine ignores unwanted ones
    }
    return Gradients{of_sum[0], of_sum[1], g[1], g[2]};
  };
  return op.record(a.r.y, inputs, std::move(vjp));
}

SumAndNorm both(const Norm& norm, const Tensor& x, const Tensor& residual, const Tensor& weight,
                const Tensor& bias, const AddNormOptions& o) {
  Op op(norm.name, x, residual, weight, bias);
  checked(norm, x, residual, weight, bias, o);
  if (by_ops(norm, x, residual, o)) return both_by_ops(norm, x, residual, weight, bias, o);
  AddNorm a(norm, x, residual, weight, bias, o);
  auto sum_vjp = [name = norm.name, mask = a.mask](const Tensor& dy, const Wants& wants) {
    return sum_gradients(name, mask, dy, wants);
  };
  const Tensor sum = op.record(a.sum, {a.x, a.residual}, sum_vjp);
  if (recording({sum, a.w.weight, a.w.bias})) detail::recompute_norm(norm, a.r.y, sum, a.w);
  auto vjp = [saved = detail::SavedNorm(norm, sum, a.w, a.r)](Consumed dy, const Wants& wants) {
    if (grad_enabled()) return saved.recorded(dy);
    return saved.fused(std::move(dy), wants[1] || wants[2], detail::gathered(wants));
  };
  return {sum, op.record(a.r.y, {sum, a.w.weight, a.w.bias}, std::move(vjp))};
}

Tensor composed_sum(const Tensor& x, const Tensor& residual, double p, Rng* rng) {
  return residual + (p > 0 ? composed::dropout(x, p, *rng) : x);
}

// The defaults of layer_norm and rms_norm.
double layer_eps(const AddNormOptions& o) { return o.eps.value_or(1e-5); }
double rms_eps(const AddNormOptions& o) { return o.eps.value_or(0x1p-23); }

}  // namespace

Tensor composed::dropout_add(const Tensor& x, const Tensor& residual, double p, Rng& rng) {
  return composed_sum(x, residual, p, &rng);
}

Tensor composed::add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                                const Tensor& weight, const Tensor& bias, const AddNormOptions& o) {
  return composed::layer_norm(composed_sum(x, residual, o.dropout, o.rng), shape, weight, bias,
                              layer_eps(o));
}

Tensor composed::add_rms_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                              const Tensor& weight, const AddNormOptions& o) {
  return composed::rms_norm(composed_sum(x, residual, o.dropout, o.rng), shape, weight, rms_eps(o));
}

Tensor dropout_add(const Tensor& x, const Tensor& residual, double p, Rng& rng) {
  constexpr const char* kName = "dropout_add";
  Op op(kName, x, residual);
  check_operands(kName, x, residual);
  detail::check_dropout(kName, p, &rng);
  if (p == 0 || p == 1 || stretches(kName, x, residual)) return residual + dropout(x, p, rng);
  Tensor c = x.contiguous(), passed = stretched(residual, x).contiguous();
  const Mask mask = detail::draw_mask(p, &rng);
  Fresh sum(c.shape(), c.dtype());
  dispatch_float(c.dtype(), kName, [&]<class T>() {
    kernels::dropout_add(c.data<T>(), passed.data<T>(), sum.data<T>(), sum.numel(), *mask);
  });
  auto vjp = [mask](const Tensor& dy, const Wants& wants) {
    return sum_gradients(kName, mask, dy, wants);
  };
  return op.record(sum, {c, passed}, vjp);
}

Tensor add_layer_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                      const Tensor& weight, const Tensor& bias, const AddNormOptions& o) {
  return normalised({"add_layer_norm", true, shape, layer_eps(o)}, x, residual, weight, bias, o);
}

Tensor add_rms_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                    const Tensor& weight, const AddNormOptions& o) {
  return normalised({"add_rms_norm", false, shape, rms_eps(o)}, x, residual, weight, {}, o);
}

SumAndNorm sum_and_layer_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                              const Tensor& weight, const Tensor& bias, const AddNormOptions& o) {
  return both({"sum_and_layer_norm", true, shape, layer_eps(o)}, x, residual, weight, bias, o);
}

SumAndNorm sum_and_rms_norm(const Tensor& x, const Tensor& residual, const Shape& shape,
                            const Tensor& weight, const AddNormOptions& o) {
  return both({"sum_and_rms_norm", false, shape, rms_eps(o)}, x, residual, weight, {}, o);
}

}  // namespace tern
