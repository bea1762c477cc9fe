// linear: x W^T + b with activation and residual in one pass, and its gradients in few passes.
#include "tern/core/kernels/products/linear.h"

#include <optional>

#include "tern/core/ops/composed.h"
#include "tern/core/ops/elementwise/activations.h"
#include "tern/core/ops/products/matmul.h"
#include "tern/core/ops/random/dropout.h"
#include "tern/core/tape/substitution.h"

namespace tern {
namespace {

using detail::with_activation;
using Mask = std::optional<kernels::DropMask>;

Keep kept_by(Activation a) {
  return with_activation(a, [](auto op) { return op.kKeep; });
}

Tensor activate(Activation a, const Tensor& x) {
  switch (a) {
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu(x, Gelu::tanh);
    case Activation::silu:
      return silu(x);
    case Activation::tanh:
      return tanh(x);
    case Activation::sigmoid:
      return sigmoid(x);
    case Activation::none:
      return x;
  }
  fail_unhandled("Activation", a);
}

/// Applies dropout in place and adds the residual, if any. This is a separate pass over y, because
/// the panels of the product would split groups of random words.
void drop(const Fresh& y, const Tensor& residual, const kernels::DropMask& mask) {
  const Tensor passed = residual.defined() ? residual.detach().contiguous() : residual;
  dispatch_float(y.dtype(), "linear", [&]<class T>() {
    if (passed.defined())
      kernels::dropout_add(y.data<T>(), passed.data<T>(), y.data<T>(), y.numel(), mask);
    else
      kernels::dropout(y.data<T>(), y.data<T>(), y.numel(), mask);
  });
}

/// `kept` (or null) receives the input of the activation's gradient.
void forward(const Tensor& x, const Tensor& w, const Tensor& b, const LinearOptions& options,
             const Fresh& y, const Fresh* kept) {
  const int64_t n = w.size(0);
  Tensor rows = detail::for_blas(x);
  Tensor wt = detail::for_blas(not_differentiable(Fresh::view(w, permute(w.layout(), Dims{1, 0}))));
  Tensor bias = b.defined() ? b.detach().contiguous() : zeros({n}, x.dtype());
  Tensor residual = options.residual.defined() ? options.residual.detach().contiguous() : Tensor();
  const kernels::Gemm g = detail::gemm_of(rows.layout(), wt.layout(), y.layout());
  const bool plain = !b.defined() && !residual.defined() && options.activation == Activation::none;
  const bool keep_input = kept && kept_by(options.activation) == Keep::input;
  dispatch_float(x.dtype(), "linear", [&]<class T>() {
    kernels::LinearOutput<T> out{n,
                                 keep_input ? kept->data<T>() : y.data<T>(),
                                 bias.data<T>(),
                                 y.data<T>(),
                                 kept && !keep_input ? kept->data<T>() : nullptr,
                                 residual.defined() ? residual.data<T>() : nullptr};
    with_activation(options.activation, [&](auto op) {
      auto done = [&](const kernels::Panel& panel) {
        kernels::finish_panel(out, panel, [op](T v) { return op.f(v); });
      };
      kernels::gemm<T>(g, rows.data<T>(), wt.data<T>(), out.product, 0,
                       plain ? kernels::PanelDone() : kernels::PanelDone(done));
    });
  });
}

/// act(x) for contiguous x.
Fresh activated(Activation a, const Tensor& x) {
  Fresh y(x.shape(), x.dtype());
  dispatch_float(x.dtype(), "linear", [&]<class T>() {
    with_activation(a, [&](auto op) {
      kernels::activate(x.numel(), x.data<T>(), y.data<T>(), [op](T v) { return op.f(v); });
    });
  });
  return y;
}

/// The dropout mask, and whether `kept` already contains it.
struct Dropping {
  Mask mask;
  bool in_kept = false;  ///< kept is the result of a ReLU, 0 where dropped
};

/// dy act'(x W^T + b), after dropout of dy. dbias, if not null, receives its sum over the rows.
Tensor fused_gradient(Activation a, Consumed dy, const Operand& kept, const Dropping& dropping,
                      const Fresh* dbias) {
  dy.make_contiguous();
  const int64_t n = dy.get().size(-1), rows = dy.get().numel() / n;
  Fresh dpre = dy.reuse();
  const kernels::DropMask* mask = dropping.mask && !dropping.in_kept ? &*dropping.mask : nullptr;
  dispatch_float(dpre.dtype(), "linear", [&]<class T>() {
    const T scale = dropping.in_kept ? static_cast<T>(dropping.mask->scale) : T(1);
    auto go = [&](auto op, const auto* k) {
      kernels::linear_gradient(rows, n, dy.get().data<T>(), k, dpre.data<T>(),
                               dbias ? dbias->data<T>() : nullptr, mask,
                               [op, scale](T u, T v) { return op.df(u * scale, v); });
    };
    if (kept.rounded())
      go(detail::Relu(), static_cast<const kernels::Bf16*>(kept.elements<float>().data));
    else
      with_activation(a, [&](auto op) { go(op, kept.tensor().data<T>()); });
  });
  return not_differentiable(dpre);
}

struct LinearVjp {
  Activation activation;
  Dropping dropping;
  SavedOperand x, w;
  Saved b;
  SavedOperand kept;
  Layout x_layout, w_layout;

  Gradients composed_gradients(const Tensor& dy) const {
    Tensor factors;
    if (dropping.mask)
      factors = detail::masked("dropout", Consumed(ones(dy.shape(), dy.dtype())), *dropping.mask);
    auto fn = [&](const std::vector<Tensor>& in) {
      Tensor y = composed::linear(in[0], in[1], in[2], {.activation = activation});
      return factors.defined() ? y * factors : y;
    };
    return detail::composed_gradients(fn, {x.get(), w.get(), b.get()}, dy);
  }

  // y = m f(p) + r, p = x W^T + b:  dp = m dy f'(p), dx = dp W, dW = dp^T x, db = sum dp, dr = dy.
  Gradients operator()(Consumed dy, const Wants& wants) const {
    const bool active = activation != Activation::none && dy.get().numel() > 0;
    Gradients g(4);
    if (active && grad_enabled()) g = composed_gradients(dy);
    g.resize(4);
    if (wants[3]) g[3] = dy;
    if (active && grad_enabled()) return g;
    Tensor dp;
    if (active) {
      std::optional<Fresh> dbias;
      if (wants[2]) dbias.emplace(Shape{dy.get().size(-1)}, dy.get().dtype());
      dp = fused_gradient(activation, std::move(dy), kept.operand(), dropping,
                          dbias ? &*dbias : nullptr);
      if (dbias) g[2] = not_differentiable(*dbias);
    } else {
      dp = dropping.mask ? detail::masked("dropout", std::move(dy), *dropping.mask)
                         : std::move(dy).take();
    }
    if (wants[2] && !g[2].defined()) g[2] = dp;  // the engine sums it over the rows
    if (wants[1]) g[1] = gradient_product(wants, 1, transposed(dp), x.operand(), w_layout);
    if (wants[0]) g[0] = gradient_product(wants, 0, dp, w.operand(), x_layout);
    return g;
  }
};

/// Checks the operands and returns the shape of the result.
Shape check_linear(const Tensor& x, const Tensor& w, const Tensor& b,
                   const LinearOptions& options) {
  check(w.ndim() == 2, "linear: the weight must be (out, in), got {}", w.shape());
  check(x.ndim() > 0 && x.size(-1) == w.size(1),
        "linear: the input {} does not end in the {} features of the weight {}", x.shape(),
        w.size(1), w.shape());
  check(!b.defined() || b.shape() == Shape{w.size(0)},
        "linear: the bias must be ({},) for a weight {}, got {}", w.size(0), w.shape(),
        b.defined() ? b.shape() : Shape());
  auto same_type = [&](const char* what, const Tensor& t) {
    check(!t.defined() || t.dtype() == x.dtype(),
          "linear: the input is {}, the {} {}; convert one with .to()", x.dtype(), what,
          t.defined() ? t.dtype() : x.dtype());
  };
  same_type("weight", w);
  same_type("bias", b);
  same_type("residual", options.residual);
  Shape shape = x.shape();
  shape[x.ndim() - 1] = w.size(0);
  check(!options.residual.defined() || options.residual.shape() == shape,
        "linear: the residual must have the output's shape {}, got {}", shape,
        options.residual.defined() ? options.residual.shape() : Shape());
  return shape;
}

/// linear() with hooks that change x W^T + b before the rest of `options`.
Tensor hooked(const Tensor& x, const Tensor& w, const Tensor& b, const LinearOptions& options,
              const std::vector<const detail::LinearHook*>& hooks) {
  using detail::Substitution;
  const detail::Ref<Substitution> unhooked(
      new Substitution({}, detail::substituting, Substitution::OuterHooks::hidden));
  const detail::SubstitutionScope scope(unhooked);
  Tensor y = linear(x, w, b);
  for (const detail::LinearHook* hook : hooks) {
    hook->calls.fetch_add(1, std::memory_order_relaxed);
    const Tensor changed = hook->fn(x, y);
    if (!changed.defined()) continue;
    check(changed.shape() == y.shape() && changed.dtype() == y.dtype(),
          "linear: a LinearHook returned {} {}, but the result that it changes is {} {}",
          changed.dtype(), changed.shape(), y.dtype(), y.shape());
    y = changed;
  }
  y = activate(options.activation, y);
  if (options.dropout > 0) y = dropout(y, options.dropout, *options.rng);
  return options.residual.defined() ? y + options.residual : y;
}

}  // namespace

Tensor composed::linear(const Tensor& x, const Tensor& w, const Tensor& b,
                        const LinearOptions& options) {
  Tensor y = matmul(x, transpose(w, 0, 1));
  if (b.defined()) y = y + b;
  y = activate(options.activation, y);
  if (options.dropout > 0) y = composed::dropout(y, options.dropout, *options.rng);
  return options.residual.defined() ? y + options.residual : y;
}

Tensor linear(const Tensor& x, const Tensor& w, const Tensor& b, const LinearOptions& options) {
  Op op("linear", x, w, b, options.residual);
  check_defined("linear", x, w);
  const Shape shape = check_linear(x, w, b, options);
  const Tensor& residual = options.residual;
  detail::check_dropout("linear", options.dropout, options.rng);
  if (const auto hooks = detail::hooks_of(w); !hooks.empty())
    return hooked(x, w, b, options, hooks);
  if (detail::composing()) return composed::linear(x, w, b, options);
  if (options.dropout == 1) {  // drops everything
    Tensor y = dropout(linear(x, w, b, {.activation = options.activation}), 1, *options.rng);
    return residual.defined() ? y + residual : y;
  }
  if (x.ndim() == 1) {
    LinearOptions row = options;
    if (residual.defined()) row.residual = unsqueeze(residual, 0);
    return squeeze(linear(unsqueeze(x, 0), w, b, row), 0);
  }
  Fresh y(shape, x.dtype());
  const Activation activation = options.activation;
  const Mask mask = detail::draw_mask(options.dropout, options.rng);
  const bool active = activation != Activation::none;
  const bool record_it = op.recording();
  // A gradient that reads the activation's output can read y, unless a residual is added. With
  // dropout this holds for ReLU only: y is 0 wherever dy is blocked.
  const Keep keep = kept_by(activation);
  const bool in_y = !residual.defined() && (!mask || activation == Activation::relu);
  std::optional<Fresh> kept;
  if (record_it && (keep == Keep::input || (keep == Keep::output && !in_y)))
    kept.emplace(shape, x.dtype());
  LinearOptions panels = options;
  if (mask) panels.residual = {};
  forward(x, w, b, panels, y, kept ? &*kept : nullptr);
  if (mask) drop(y, residual, *mask);
  if (!record_it) return op.not_differentiable(y);
  const bool in_kept = mask && keep == Keep::output && in_y;
  LinearVjp vjp{activation, {mask, in_kept}, {}, {}, {}, {}, x.layout(), w.layout()};
  if (active || w.requires_grad()) vjp.x = save_operand(x);
  if (active || x.requires_grad()) vjp.w = save_operand(w);
  if (active) vjp.b = save(b);
  Saved whole;
  if (activation == Activation::relu) {  // its gradient only reads which elements are 0
    vjp.kept = SavedOperand(kept ? *kept : y);
  } else {
    if (kept)
      whole = save(not_differentiable(*kept));
    else if (keep == Keep::output)
      whole = save(y);
    vjp.kept = SavedOperand(whole);
  }
  if (detail::recomputing() && keep == Keep::input && !residual.defined())
    recompute_by(y, {&whole, 1}, [activation, mask](const std::vector<Tensor>& from) {
      Fresh again = activated(activation, from[0]);
      if (mask) drop(again, {}, *mask);
      return again;
    });
  return op.record(y, std::move(vjp));
}

}  // namespace tern
