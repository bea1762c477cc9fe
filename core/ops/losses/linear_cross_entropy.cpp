// Cross entropy of linear(x, W, b) in blocks of rows. The logits of all rows never exist at once:
// each block's part of the gradient is computed together with its logits.
#include <algorithm>
#include <utility>

#include "tern/core/kernels/losses/cross_entropy.h"
#include "tern/core/kernels/products/linear.h"
#include "tern/core/kernels/scratch.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/losses/cross_entropy.h"
#include "tern/core/ops/products/matmul.h"
#include "tern/core/tape/substitution.h"

namespace tern {
namespace {

using detail::RowTargets;

constexpr const char* kName = "linear_cross_entropy";

// Logits per block: small compared to the weight, but enough rows for fast products.
constexpr int64_t kBlockElements = int64_t{1} << 22, kLeastRows = 128;

/// Splits the rows into blocks of nearly equal size. Depends on the shape only.
int64_t block_rows(int64_t rows, int64_t classes) {
  const int64_t most = std::max(kLeastRows, kBlockElements / std::max<int64_t>(classes, 1));
  const int64_t blocks = std::max<int64_t>(1, ceil_div(rows, most));
  return ceil_div(rows, blocks);
}

/// x (rows, D), weight (V, D), bias (V) or undefined, without history.
struct Head {
  Tensor x, weight, bias;

  Tensor logits(int64_t begin, int64_t count) const {
    return linear(narrow(x, 0, begin, count), weight, bias);
  }
};

/// Gradients of sum(scale * losses). Undefined where not wanted.
struct Slopes {
  Tensor x, weight, bias;
};

template <class T>
kernels::Targets<T> from_row(kernels::Targets<T> all, int64_t row) {
  all.index += row;
  return all;
}

/// Replaces logits by the gradient of sum(scale * losses): scale (count).
template <class T>
void to_gradient(const Tensor& logits, const kernels::Targets<T>& targets, const T* scale,
                 const T* max, const T* total) {
  T* in_place = const_cast<T*>(logits.data<T>());
  kernels::cross_entropy_backward(scale, in_place, targets, max, total, in_place, logits.size(0),
                                  logits.size(1));
}

/// Adds one block's parts to `to`; its gradients of x begin at row `begin`.
void add_products(const Head& head, const Tensor& dlogits, int64_t begin, const Slopes& to) {
  const int64_t count = dlogits.size(0);
  if (to.x.defined()) add_matmul(narrow(to.x, 0, begin, count), dlogits, head.weight);
  if (to.weight.defined())
    add_matmul(to.weight, transposed(dlogits), narrow(head.x, 0, begin, count));
  if (to.bias.defined()) add_(to.bias, sum(dlogits, {0}));
}

/// The losses (rows); with `to` also the gradients of sum(scale * losses), scale (rows).
Tensor run(const Head& head, const RowTargets& targets, const Tensor& scale, const Slopes* to) {
  NoGradGuard no_grad;
  const int64_t rows = head.x.size(0), step = block_rows(rows, head.weight.size(0));
  Tensor losses = empty({rows}, head.x.dtype());
  dispatch_float(losses.dtype(), kName, [&]<class T>() {
    kernels::Scratch<T> max(step), total(step);
    const kernels::Targets<T> all = targets.raw<T>();
    T* loss = losses.mutable_data<T>();
    for (int64_t begin = 0; begin < rows; begin += step) {
      const int64_t count = std::min(step, rows - begin);
      const Tensor logits = head.logits(begin, count);
      const auto part = from_row(all, begin);
      kernels::cross_entropy(logits.data<T>(), part, loss + begin, max.data(), total.data(), count,
                             logits.size(1));
      if (!to) continue;
      to_gradient(logits, part, scale.data<T>() + begin, max.data(), total.data());
      add_products(head, logits, begin, *to);
    }
  });
  return losses;
}

/// Memory for the wanted gradients.
Slopes fresh_slopes(const Head& head, bool x, bool weight, bool bias) {
  const DType type = head.x.dtype();
  return {x ? zeros(head.x.shape(), type) : Tensor(),
          weight ? zeros(head.weight.shape(), type) : Tensor(),
          bias ? zeros({head.weight.size(0)}, type) : Tensor()};
}

/// slope * factor; factor has one element. In place if `last`.
Tensor scaled(Tensor& slope, const Tensor& factor, bool last) {
  if (!slope.defined()) return {};
  const auto by = factor.item();
  if (!last) return slope * by;
  Tensor out = std::exchange(slope, Tensor());
  if (by != 1) mul_(out, by);
  return out;
}

/// The inputs, as kept for the backward pass, and the constants of the loss.
struct Kept {
  SavedOperand x;
  Saved weight, bias;
  Saved index, class_weights;  // of `targets`
  RowTargets targets;
  CrossEntropyOptions options;  // .weight: that of `targets`

  /// Error if the targets or the weights of classes were overwritten since.
  void check_targets() const {
    index.check_unchanged();
    class_weights.check_unchanged();
  }
  Head head() const { return {x.get(), weight.get(), bias.get()}; }
  /// The gradients by public ops, for second derivatives.
  Gradients composed(const Tensor& dy) const {
    check_targets();
    auto fn = [&](const std::vector<Tensor>& in) {
      return composed::linear_cross_entropy(in[0], in[1], in[2], targets.index, options);
    };
    return detail::composed_gradients(fn, {x.get(), weight.get(), bias.get()}, dy);
  }
};

// Only backward knows the weight of each loss, so it computes the logits a second time.
struct LossesVjp {
  Kept kept;

  Gradients operator()(const Tensor& dy, const Wants& wants) const {
    if (grad_enabled()) return kept.composed(dy);
    kept.check_targets();
    const Head head = kept.head();
    const Slopes slopes = fresh_slopes(head, wants[0], wants[1], wants[2]);
    static_cast<void>(run(head, kept.targets, dy.contiguous(), &slopes));
    return {slopes.x, slopes.weight, slopes.bias};
  }
};

// Forward has computed these gradients: what happens to the targets since then changes nothing.
struct ReducedVjp {
  Kept kept;
  Slopes slopes;

  Gradients operator()(const Tensor& dy, const Wants& wants) {
    if (grad_enabled()) return kept.composed(dy);
    return {scaled(slopes.x, dy, wants.last()), scaled(slopes.weight, dy, wants.last()),
            scaled(slopes.bias, dy, wants.last())};
  }
};

Tensor row_losses(Op& op, const Head& inputs, const Kept& kept) {
  const Head head{inputs.x.detach(), inputs.weight.detach(),
                  inputs.bias.defined() ? inputs.bias.detach() : Tensor()};
  Fresh losses = Fresh::adopt(run(head, kept.targets, {}, nullptr));
  return op.record(losses, {inputs.x, inputs.weight, inputs.bias}, LossesVjp{kept});
}

Tensor reduced(Op& op, const Head& inputs, const Kept& kept) {
  const Head head{inputs.x.detach(), inputs.weight.detach(),
                  inputs.bias.defined() ? inputs.bias.detach() : Tensor()};
  const RowTargets& targets = kept.targets;
  const double total = kept.options.reduction == Reduction::mean
                           ? detail::total_weight(targets.index, targets.weight, targets.ignore)
                           : 1;
  const Tensor scale = full({head.x.size(0)}, total == 0 ? 0 : 1 / total, head.x.dtype());
  const bool records = recording({inputs.x, inputs.weight, inputs.bias});
  const Slopes slopes = fresh_slopes(head, records && inputs.x.requires_grad(),
                                     records && inputs.weight.requires_grad(),
                                     records && inputs.bias.requires_grad());
  const Tensor losses = run(head, targets, scale, records ? &slopes : nullptr);
  Fresh loss = Fresh::adopt(detail::reduce_rows(losses, kept.options.reduction, total, {}));
  return op.record(loss, {inputs.x, inputs.weight, inputs.bias}, ReducedVjp{kept, slopes});
}

void check_arguments(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Tensor& target) {
  check(x.ndim() > 0 && weight.ndim() == 2 && x.size(-1) == weight.size(1),
        "{}: needs x (..., D) and weight (V, D), got {} and {}", kName, x.shape(), weight.shape());
  check(!bias.defined() || bias.shape() == Shape{weight.size(0)},
        "{}: the bias must be ({},) for a weight {}, got {}", kName, weight.size(0), weight.shape(),
        bias.defined() ? bias.shape() : Shape());
  for (const Tensor* t : {&weight, &bias})
    check(!t->defined() || t->dtype() == x.dtype(),
          "{}: x is {}, weight or bias {}; convert one with .to()", kName, x.dtype(),
          t->defined() ? t->dtype() : x.dtype());
  check(!is_float(target.dtype()),
        "{}: targets must be i64 classes, got {} {}; for probabilities, call cross_entropy on the "
        "result of linear",
        kName, target.dtype(), target.shape());
  check(target.shape() == Shape(x.shape().begin(), x.shape().end() - 1),
        "{}: x {} needs one class for each of its rows, got targets of shape {}", kName, x.shape(),
        target.shape());
}

using Loss = Tensor(const Tensor&, const Tensor&, const CrossEntropyOptions&);

Tensor of_logits(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options,
                 Loss& loss) {
  const Tensor losses = loss(reshape(logits, {target.numel(), logits.size(-1)}),
                             reshape(target, target.numel()), options);
  return options.reduction == Reduction::none ? reshape(losses, target.shape()) : losses;
}

}  // namespace

Tensor composed::linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                                      const Tensor& target, const CrossEntropyOptions& options) {
  const Tensor rows = reshape(x, {target.numel(), x.size(-1)});
  return of_logits(composed::linear(rows, weight, bias), target, options, composed::cross_entropy);
}

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Tensor& target, const CrossEntropyOptions& options) {
  Op op(kName, x, weight, bias);
  check_defined(kName, x, weight, target);
  check_arguments(x, weight, bias, target);
  detail::check_label_smoothing(kName, options.label_smoothing);
  if (!detail::hooks_of(weight).empty())  // hooks change the logits
    return of_logits(linear(x, weight, bias), target, options, cross_entropy);
  const int64_t classes = weight.size(0);
  const RowTargets targets{detail::class_indices(kName, target, classes, options.ignore_index),
                           {},
                           detail::class_weights(kName, options.weight, classes, x.dtype()),
                           options.label_smoothing,
                           options.ignore_index};
  const Head inputs{reshape(x, {target.numel(), x.size(-1)}), weight, bias};
  CrossEntropyOptions kept_options = options;
  kept_options.weight = targets.weight;
  const Kept kept{save_operand(inputs.x), save(weight), save(bias),  save(targets.index),
                  save(targets.weight),   targets,      kept_options};
  if (options.reduction != Reduction::none) return reduced(op, inputs, kept);
  return reshape(row_losses(op, inputs, kept), target.shape());
}

}  // namespace tern
