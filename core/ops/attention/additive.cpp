// The fused op, whose kernels visit every pair of a query and a key, and its composed definition,
// which stores all tanh values (B, Q, S, H) and serves second derivatives.
#include "tern/core/ops/attention/additive.h"

#include "tern/core/kernels/attention/additive.h"
#include "tern/core/ops/composed.h"
#include "tern/core/tape/substitution.h"

namespace tern {
namespace {

kernels::AdditiveSize size_of(const Tensor& q, const Tensor& k) {
  return {q.size(0), q.size(1), k.size(1), q.size(2)};
}

// All gradients in one pass. If other uses of k have left a gradient, adds to it in place.
Gradients fused(const Tensor& dy, const Tensor& q, const Tensor& k, const Tensor& w,
                const Wants& wants) {
  Tensor d = dy.contiguous(), gathered = wants.accumulator(1);
  Tensor dk = gathered.defined() ? gathered : zeros(k.shape(), k.dtype());
  Fresh dq(q.shape(), q.dtype()), dw(w.shape(), w.dtype());
  dispatch_float(q.dtype(), "additive_scores", [&]<class T>() {
    kernels::additive_gradients(size_of(q, k), q.data<T>(), k.data<T>(), w.data<T>(), d.data<T>(),
                                dq.data<T>(), dk.mutable_data<T>(), dw.data<T>());
  });
  return {not_differentiable(dq), gathered.defined() ? Tensor() : dk, not_differentiable(dw)};
}

}  // namespace

Tensor composed::additive_scores(const Tensor& q, const Tensor& k, const Tensor& w) {
  return sum(tanh(unsqueeze(q, 2) + unsqueeze(k, 1)) * w, -1);
}

Tensor additive_scores(const Tensor& q_in, const Tensor& k_in, const Tensor& w_in) {
  Op op("additive_scores", q_in, k_in, w_in);
  check_defined("additive_scores", q_in, k_in, w_in);
  check(q_in.ndim() == 3 && k_in.ndim() == 3 && w_in.ndim() == 1,
        "additive_scores: needs queries (B, Q, H), keys (B, S, H) and w (H), got {}, {} and {}",
        q_in.shape(), k_in.shape(), w_in.shape());
  check(
      q_in.size(0) == k_in.size(0) && q_in.size(2) == k_in.size(2) && q_in.size(2) == w_in.size(0),
      "additive_scores: batches or hidden units differ: queries {}, keys {}, w {}", q_in.shape(),
      k_in.shape(), w_in.shape());
  check(q_in.dtype() == k_in.dtype() && q_in.dtype() == w_in.dtype(),
        "additive_scores: types differ: queries {}, keys {}, w {}; convert with .to()",
        q_in.dtype(), k_in.dtype(), w_in.dtype());
  detail::check_unhooked("additive_scores", w_in, "use a WeightsInstead");
  if (detail::composing()) return composed::additive_scores(q_in, k_in, w_in);
  Tensor q = q_in.contiguous(), k = k_in.contiguous(), w = w_in.contiguous();
  Fresh y({q.size(0), q.size(1), k.size(1)}, q.dtype());
  dispatch_float(q.dtype(), "additive_scores", [&]<class T>() {
    kernels::additive_scores(size_of(q, k), q.data<T>(), k.data<T>(), w.data<T>(), y.data<T>());
  });
  auto vjp = [q = save(q), k = save(k), w = save(w)](const Tensor& dy, const Wants& wants) {
    if (!grad_enabled()) return fused(dy, q.get(), k.get(), w.get(), wants);
    auto fn = [](const std::vector<Tensor>& in) {
      return composed::additive_scores(in[0], in[1], in[2]);
    };
    return detail::composed_gradients(fn, {q.get(), k.get(), w.get()}, dy);
  };
  return op.record(y, {q, k, w}, std::move(vjp));
}

}  // namespace tern
