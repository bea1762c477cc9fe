// Losses of classes: cross entropy (softmax included) and negative log likelihood.
#include "tern/core/ops/losses/cross_entropy.h"

#include <array>
#include <limits>

#include "tern/core/ops/composed.h"
#include "tern/core/ops/reduction/reduction.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/record.h"

namespace tern {
namespace detail {

Tensor class_weights(const char* op, const Tensor& weight, int64_t classes, DType dtype) {
  if (!weight.defined()) return ones(classes, dtype);
  check(weight.shape() == Shape(classes), "{}: {} classes, but weight has shape {}", op, classes,
        weight.shape());
  check(weight.dtype() == dtype, "{}: the input is {}, weight {}; convert one with .to()", op,
        dtype, weight.dtype());
  check(!weight.requires_grad(), "{}: class weights have no gradient; detach() them", op);
  return weight.contiguous();
}

Tensor class_indices(const char* op, const Tensor& target, int64_t classes, int64_t ignore) {
  check(target.dtype() == DType::i64,
        "{}: targets of shape {} must be i64 classes, got {}; convert with .to(DType::i64)", op,
        target.shape(), target.dtype());
  Tensor index = reshape(target, target.numel()).contiguous();
  const int64_t* p = index.data<int64_t>();
  const int64_t row = kernels::first_outside(p, index.numel(), classes, ignore);
  check(row < 0, "{}: target {} at row {} is outside [0, {})", op, row < 0 ? 0 : p[row], row,
        classes);
  return index;
}

void check_label_smoothing(const char* op, double smoothing) {
  check(smoothing >= 0 && smoothing <= 1, "{}: label_smoothing must be in [0, 1], got {}", op,
        smoothing);
}

Tensor reduce_rows(const Tensor& losses, Reduction reduction, double weight, const Shape& shape) {
  if (reduction == Reduction::none) return reshape(losses, shape);
  Tensor total = sum(losses);
  if (reduction == Reduction::sum) return total;
  // With label smoothing the total is not 0 where all weights are.
  return weight == 0 ? total * 0 : total / weight;
}

double total_weight(const Tensor& index, const Tensor& weight, int64_t ignore) {
  return dispatch_float(weight.dtype(), "cross_entropy", [&]<class T>() {
    return kernels::weight_of(index.data<int64_t>(), weight.data<T>(), index.numel(), ignore);
  });
}

Tensor RowTargets::weights() const {
  const int64_t classes = weight.numel();
  Tensor t = probabilities, counts;
  if (index.defined()) {
    counts = unsqueeze(ne(index, ignore), 1).to(weight.dtype());
    t = one_hot(masked_fill(index, eq(index, ignore), 0), classes, weight.dtype());
  }
  Tensor q = (t * (1 - smoothing) + smoothing / static_cast<double>(classes)) * weight;
  return counts.defined() ? q * counts : q;
}

}  // namespace detail

namespace {

using detail::class_indices;
using detail::class_weights;
using detail::reduce_rows;
using detail::RowTargets;
using detail::total_weight;

// Reshapes x (C), (N, C) or (N, C, d1, ...) to (rows, C).
Tensor class_rows(const char* op, const Tensor& x) {
  check(x.ndim() > 0, "{}: needs an axis of classes, got a tensor without axes", op);
  if (x.ndim() == 1) return unsqueeze(x, 0);
  if (x.ndim() == 2) return x;
  Dims order(0);
  for (int a = 2; a < x.ndim(); ++a) order.push_back(a);
  order.push_back(1);
  const int64_t classes = x.size(1);
  return reshape(permute(x, order), {x.numel() / std::max<int64_t>(classes, 1), classes});
}

Shape without_classes(const Tensor& x) {
  Shape shape = x.shape();
  shape.erase(x.ndim() == 1 ? 0 : 1);
  return shape;
}

void check_class_shape(const char* op, const Tensor& target, const Tensor& x) {
  const Shape shape = without_classes(x);
  Shape rows = x.shape();
  rows.erase(x.ndim() - 1);
  check(target.shape() == shape || target.shape() != rows,
        "{}: axis 1 of the input {} is the axis of classes, but the classes of shape {} fit if it "
        "is the last one: transpose(input, 1, -1), or flatten(input, 0, -2) and flatten(classes)",
        op, x.shape(), target.shape());
  check(target.shape() == shape,
        "{}: an input {} needs classes of shape {}, got {}; squeeze or reshape them. Targets that "
        "are probabilities have the shape and type of the input: convert with .to(DType::{})",
        op, x.shape(), shape, target.shape(), x.dtype());
}

int64_t classes_of(const Tensor& x) { return x.ndim() == 1 ? x.size(0) : x.size(1); }

// As in the kernel, a class with q = 0 does not count, even if its logit is -inf.
Tensor composed_row_losses(const Tensor& logits, const RowTargets& targets) {
  Tensor q = targets.weights(), log_p = log_softmax(logits, -1);
  Tensor nothing = logical_and(eq(q, 0), eq(log_p, -std::numeric_limits<double>::infinity()));
  return -sum(q * masked_fill(log_p, nothing, 0), -1);
}

Tensor row_losses(const Tensor& logits, const RowTargets& targets) {
  Op op("cross_entropy", logits);
  Tensor x = logits.contiguous();
  const int64_t rows = x.size(0), classes = x.size(1);
  Fresh loss(rows, x.dtype()), max(rows, x.dtype()), sum_(rows, x.dtype());
  dispatch_float(x.dtype(), "cross_entropy", [&]<class T>() {
    kernels::cross_entropy(x.data<T>(), targets.raw<T>(), loss.data<T>(), max.data<T>(),
                           sum_.data<T>(), rows, classes);
  });
  std::array kept{save(x), save(targets.index), save(targets.probabilities), save(targets.weight)};
  auto vjp = [kept, targets, max = not_differentiable(max), total = not_differentiable(sum_)](
                 const Tensor& dy, const Wants& wants) mutable -> Tensor {
    for (const Saved& saved : kept) saved.check_unchanged();
    if (grad_enabled()) {
      auto fn = [&](const std::vector<Tensor>& in) { return composed_row_losses(in[0], targets); };
      return detail::composed_gradients(fn, {kept[0].get()}, dy)[0];
    }
    Tensor d = dy.contiguous();
    // Overwrites the logits, the largest tensor, if no one else holds them.
    const Tensor own = wants.last() ? kept[0].consume() : Tensor();
    const Tensor logits = own.defined() ? own : kept[0].get();
    Fresh dx = own.defined() ? Fresh::adopt(own) : Fresh(logits.shape(), d.dtype());
    dispatch_float(d.dtype(), "cross_entropy", [&]<class T>() {
      kernels::cross_entropy_backward(d.data<T>(), logits.data<T>(), targets.raw<T>(),
                                      max.data<T>(), total.data<T>(), dx.data<T>(), logits.size(0),
                                      logits.size(1));
    });
    return not_differentiable(dx);
  };
  return op.record(loss, {x}, vjp);
}

using RowLosses = Tensor (*)(const Tensor& logits, const RowTargets& targets);

// The loss for targets that are probabilities. If these need a gradient, public ops compute it.
Tensor soft_cross_entropy(const Tensor& logits, const Tensor& target,
                          const CrossEntropyOptions& options, RowLosses losses_of) {
  check(target.shape() == logits.shape(),
        "cross_entropy: floating targets are probabilities, so they must match the logits {} {}, "
        "got {} {}; classes are integers: convert with .to(DType::i64)",
        logits.dtype(), logits.shape(), target.dtype(), target.shape());
  check(target.dtype() == logits.dtype(),
        "cross_entropy: the logits are {}, the probabilities {}; convert one with .to()",
        logits.dtype(), target.dtype());
  check(options.ignore_index < 0,
        "cross_entropy: ignore_index is {}, but targets that are probabilities have no index; set "
        "their rows to 0 instead",
        options.ignore_index);
  Tensor x = class_rows("cross_entropy", logits), t = class_rows("cross_entropy", target);
  Tensor weight = class_weights("cross_entropy", options.weight, x.size(1), x.dtype());
  if (recording({target})) losses_of = composed_row_losses;
  Tensor losses = losses_of(x, {{}, t.contiguous(), weight, options.label_smoothing, 0});
  return reduce_rows(losses, options.reduction, static_cast<double>(x.size(0)),
                     without_classes(logits));
}

Tensor cross_entropy_by(RowLosses losses_of, const Tensor& logits, const Tensor& target,
                        const CrossEntropyOptions& options) {
  detail::check_label_smoothing("cross_entropy", options.label_smoothing);
  if (is_float(target.dtype())) return soft_cross_entropy(logits, target, options, losses_of);
  Tensor x = class_rows("cross_entropy", logits);
  check_class_shape("cross_entropy", target, logits);
  Tensor index = class_indices("cross_entropy", target, classes_of(logits), options.ignore_index);
  Tensor weight = class_weights("cross_entropy", options.weight, x.size(1), x.dtype());
  Tensor losses = losses_of(x, {index, {}, weight, options.label_smoothing, options.ignore_index});
  return reduce_rows(losses, options.reduction, total_weight(index, weight, options.ignore_index),
                     target.shape());
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target,
                     const CrossEntropyOptions& options) {
  check_defined("cross_entropy", logits, target);
  return cross_entropy_by(row_losses, logits, target, options);
}

Tensor composed::cross_entropy(const Tensor& logits, const Tensor& target,
                               const CrossEntropyOptions& options) {
  return cross_entropy_by(composed_row_losses, logits, target, options);
}

Tensor nll_loss(const Tensor& log_probs, const Tensor& target, const NllOptions& options) {
  check_defined("nll_loss", log_probs, target);
  Tensor x = class_rows("nll_loss", log_probs);
  check(is_float(x.dtype()), "nll_loss: needs floating log probabilities, got {}", x.dtype());
  check_class_shape("nll_loss", target, log_probs);
  Tensor index = class_indices("nll_loss", target, classes_of(log_probs), options.ignore_index);
  Tensor weight = class_weights("nll_loss", options.weight, x.size(1), x.dtype());
  Tensor ignored = eq(index, options.ignore_index), known = masked_fill(index, ignored, 0);
  Tensor picked = squeeze(gather(x, 1, unsqueeze(known, 1)), 1);
  Tensor share = index_select(weight, 0, known);
  Tensor none = logical_or(ignored, eq(share, 0));  // counts for nothing, even if it is infinite
  Tensor losses = masked_fill(-picked * share, none, 0);
  return reduce_rows(losses, options.reduction, total_weight(index, weight, options.ignore_index),
                     target.shape());
}

}  // namespace tern
