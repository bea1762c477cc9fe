// Attention as one op. The kernels read q, k and v in place, also as parts of a joint projection.
// Second derivatives: attention_composed.cpp.
#include "tern/core/kernels/attention/attention.h"

#include <cmath>

#include "tern/core/kernels/products/product.h"
#include "tern/core/ops/attention/attention_call.h"
#include "tern/core/ops/attention/heads.h"
#include "tern/core/ops/composed.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/random/dropout.h"
#include "tern/core/tape/autograd.h"

namespace tern {
namespace {

using detail::AttentionCall;
using detail::HeadsOf;
using detail::join_heads;
using detail::split_heads;
using kernels::Heads;

/// x if BLAS accepts the matrices of its last two axes in place, else a copy.
Operand with_matrices(const Operand& x) {
  const Layout& l = x.layout();
  const bool fits = kernels::blas_takes(l.shape[2], l.shape[3], {l.strides[2], l.strides[3]});
  if (fits || l.numel() == 0) return x;
  return clone(x.rounded() ? x.widened() : x.tensor().detach());
}

/// The heads in an input: a view, unless BLAS needs a copy.
Operand heads_of(const HeadsOf& part, const std::vector<Operand>& inputs) {
  const Operand& x = inputs[static_cast<size_t>(part.input)];
  const Layout heads = part.layout(x.layout());
  if (x.rounded()) return with_matrices(x.seen(heads));
  return with_matrices(not_differentiable(Fresh::view(x.tensor(), heads)));
}

template <class T>
Heads<const T> read(const Tensor& x) {
  if (!x.defined()) return {};
  const Strides& s = x.strides();
  return {x.data<T>(), s[0], s[1], s[2], s[3]};
}

template <class T>
kernels::HeadOperands<T> read(const Operand& x) {
  const Strides& s = x.layout().strides;
  return {x.elements<T>(), s[0], s[1], s[2], s[3]};
}

template <class T>
Heads<T> write(const std::optional<Fresh>& x) {
  if (!x) return {};
  const Strides& s = x->layout().strides;
  return {x->data<T>(), s[0], s[1], s[2], s[3]};
}

/// A mask's tensor in the shape of the scores, with a contiguous last axis.
Tensor spread_mask(const Tensor& x, const Shape& scores) {
  if (!x.defined() || numel(scores) == 0) return {};
  Tensor t = x.detach();
  for (int i = t.ndim(); i < 4; ++i) t = unsqueeze(t, 0);
  Shape rows = t.shape();
  rows[3] = scores[3];
  t = expand(t, rows);
  if (t.strides()[3] != 1) t = t.contiguous();
  return expand(t, scores);
}

/// Lengths as (B, 1, T, 1), with stride 0 where they do not vary.
Tensor spread_lengths(const Tensor& lengths, const Shape& scores) {
  if (!lengths.defined()) return {};
  const int64_t batch = scores[0], queries = scores[2];
  const bool one = lengths.ndim() == 1;
  Tensor t = one ? reshape(lengths, {batch, 1, 1, 1}) : reshape(lengths, {batch, 1, queries, 1});
  return expand(t, {batch, 1, queries, 1});
}

/// The tensors behind the kernel's pointers.
struct Operands {
  Operand q, k, v;
  Tensor lengths, allowed, bias;
  kernels::AttentionSizes size;

  explicit Operands(const AttentionCall& call)
      : q(heads_of(call.query, call.inputs)),
        k(heads_of(call.key_heads, call.inputs)),
        v(heads_of(call.value, call.inputs)) {
    const Shape &of_q = q.layout().shape, &of_k = k.layout().shape;
    size = {of_q[0], of_q[1], of_k[1], of_q[2], of_k[2], of_q[3], v.layout().shape[3]};
    const Shape scores = call.scores();
    lengths = spread_lengths(call.mask.lengths, scores);
    allowed = spread_mask(call.mask.allowed, scores);
    bias = spread_mask(call.mask.bias, scores);
  }

  template <class T>
  kernels::AttentionInputs<T> kernel(const AttentionCall& call) const {
    return {.size = size,
            .q = read<T>(q),
            .k = read<T>(k),
            .v = read<T>(v),
            .scale = static_cast<T>(call.scale),
            .lengths = read<int64_t>(lengths),
            .causal = call.mask.causal.has_value(),
            .offset = call.mask.causal.value_or(0),
            .windowed = call.mask.from.has_value(),
            .from = call.mask.from.value_or(0),
            .allowed = read<uint8_t>(allowed),
            .bias = read<T>(bias),
            .dropout = detail::mask_of(call.dropout, call.key)};
  }
};

/// New memory for (B, H, T, D), stored as (B, T, H, D).
Fresh heads_last(const Shape& shape, DType dtype) {
  Fresh memory({shape[0], shape[2], shape[1], shape[3]}, dtype);
  return Fresh::view(not_differentiable(memory), permute(memory.layout(), Dims{0, 2, 1, 3}));
}

Shape context_shape(const Operands& in) {
  return {in.size.batch, in.size.heads, in.size.queries, in.size.value_dim};
}

/// `kept` (B, H, T, 2) or null receives what the gradient needs.
Fresh forward(const AttentionCall& call, const std::optional<Fresh>& weights,
              const std::optional<Fresh>& kept) {
  Operands in(call);
  std::optional<Fresh> out = heads_last(context_shape(in), in.q.dtype());
  dispatch_float(in.q.dtype(), "attention", [&]<class T>() {
    kernels::attention(in.kernel<T>(call), write<T>(out), write<T>(weights),
                       kept ? kept->data<T>() : nullptr);
  });
  return *out;
}

/// Memory for the gradient of every wanted input, and the places of q, k and v in it.
struct GradientMemory {
  std::vector<std::optional<Fresh>> inputs;

  GradientMemory(const AttentionCall& call, const Wants& wants) {
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      const Layout& x = call.inputs[i].layout();
      const DType dtype = call.inputs[i].dtype();
      inputs.emplace_back();
      if (!wants[static_cast<int>(i)]) continue;
      // Keeps the memory order of x if x stores all heads of a token together.
      if (!call.packed() && x.strides[1] < x.strides[2])
        inputs.back() = heads_last(x.shape, dtype);
      else
        inputs.back() = Fresh(x.shape, dtype);
    }
  }
  std::optional<Fresh> of(const HeadsOf& part) const {
    const std::optional<Fresh>& whole = inputs[static_cast<size_t>(part.input)];
    if (!whole) return {};
    return Fresh::view(not_differentiable(*whole), part.layout(whole->layout()));
  }
};

Gradients fused_gradients(const AttentionCall& call, const Tensor& kept, const Tensor& dy,
                          const Wants& wants) {
  Operands in(call);
  const Tensor dout = with_matrices(dy.detach()).tensor();
  const GradientMemory memory(call, wants);
  const int bias = static_cast<int>(call.inputs.size());
  std::optional<Fresh> dbias;
  if (call.mask.bias.defined() && wants[bias]) dbias.emplace(call.scores(), dy.dtype());
  dispatch_float(dy.dtype(), "attention", [&]<class T>() {
    kernels::attention_backward(
        in.kernel<T>(call), kept.data<T>(), read<T>(dout), write<T>(memory.of(call.query)),
        write<T>(memory.of(call.key_heads)), write<T>(memory.of(call.value)), write<T>(dbias));
  });
  Gradients g;
  for (const std::optional<Fresh>& dx : memory.inputs)
    g.push_back(dx ? not_differentiable(*dx) : Tensor());
  g.push_back(dbias ? not_differentiable(*dbias) : Tensor());
  return g;
}

struct AttentionVjp {
  AttentionCall rest;  ///< all but the inputs
  std::vector<SavedOperand> inputs;
  Saved bias;
  Tensor kept;
  Saved lengths, allowed;  ///< the mask in `rest`, to detect writes to it

  /// Builds the call from the inputs and, as the last operand, the bias.
  AttentionCall call_on(std::vector<Operand> inputs_and_bias) const {
    AttentionCall call = rest;
    call.inputs = std::move(inputs_and_bias);
    call.mask.bias = call.inputs.back().tensor();
    call.inputs.pop_back();
    return call;
  }
  Gradients operator()(const Tensor& dy, const Wants& wants) const {
    std::vector<Operand> operands;
    for (const SavedOperand& x : inputs) operands.push_back(x.operand());
    operands.push_back(bias.get());
    lengths.check_unchanged();
    allowed.check_unchanged();
    const AttentionCall call = call_on(operands);
    Tensor dout = call.packed() ? split_heads(dy, call.query.heads) : dy;
    if (!grad_enabled()) return fused_gradients(call, kept, dout, wants);
    std::vector<Tensor> tensors;
    for (const Operand& x : operands) tensors.push_back(x.tensor());
    auto context = [&](const std::vector<Tensor>& x) {
      return detail::composed_attention(call_on({x.begin(), x.end()})).context;
    };
    return detail::composed_gradients(context, tensors, dout);
  }
};

Tensor attend(const AttentionCall& call) {
  std::vector<Tensor> inputs;
  for (const Operand& x : call.inputs) inputs.push_back(x.tensor());
  inputs.push_back(call.mask.bias);
  Op op("attention", inputs);
  if (detail::composing()) {
    const Tensor context = detail::composed_attention(call).context;
    return call.packed() ? join_heads(context) : context;
  }
  const bool record_it = op.recording();
  std::optional<Fresh> kept;
  if (record_it) {
    const Shape s = call.scores();
    kept.emplace(Shape{s[0], s[1], s[2], 2}, inputs[0].dtype());
  }
  Fresh y = forward(call, {}, kept);
  if (call.packed()) {
    const Shape s = y.shape();  // stored as (B, T, H, D)
    y = Fresh::view(not_differentiable(y), Layout::contiguous({s[0], s[2], s[1] * s[3]}));
  }
  if (!record_it) return op.not_differentiable(y);
  AttentionVjp vjp{call.without_inputs(),   {},
                   save(call.mask.bias),    not_differentiable(*kept),
                   save(call.mask.lengths), save(call.mask.allowed)};
  for (const Operand& x : call.inputs) vjp.inputs.push_back(save_operand(x.tensor()));
  return op.record(y, std::move(vjp));
}

void set_options(AttentionCall& call, const AttentionOptions& o, int64_t dim) {
  check(o.dropout >= 0 && o.dropout < 1,
        "attention: the probability of dropout is {}, outside [0, 1)", o.dropout);
  check(o.dropout == 0 || o.rng, "attention: dropout needs a generator; set .rng");
  auto same_type = [type = call.inputs[0].dtype()](const Operand& x) {
    check(x.dtype() == type,
          "attention: the queries are {}, another input {}; convert one with .to()", type,
          x.dtype());
  };
  for (const Operand& x : call.inputs) same_type(x);
  if (o.mask.bias.defined()) same_type(o.mask.bias);
  detail::check_mask(o.mask, call.scores());
  call.mask = detail::within_scores(o.mask, call.scores());
  call.scale = o.scale.value_or(dim > 0 ? 1 / std::sqrt(static_cast<double>(dim)) : 1);
  call.dropout = o.dropout;
  if (o.dropout > 0) call.key = o.rng->split().state()[0];
}

AttentionCall call_on(const Tensor& q, const Tensor& k, const Tensor& v,
                      const AttentionOptions& options) {
  check_defined("attention", q, k, v);
  check(q.ndim() == 4 && k.ndim() == 4 && v.ndim() == 4,
        "attention: needs q (B, H, T, D), k (B, G, S, D) and v (B, G, S, E), got {}, {} and {}",
        q.shape(), k.shape(), v.shape());
  check(k.size(0) == q.size(0) && v.size(0) == q.size(0) && k.size(3) == q.size(3) &&
            v.size(1) == k.size(1) && v.size(2) == k.size(2),
        "attention: q {}, k {} and v {} do not agree in examples, keys or channels", q.shape(),
        k.shape(), v.shape());
  check(k.size(1) > 0 ? q.size(1) % k.size(1) == 0 : q.size(1) == 0,
        "attention: the {} key heads must divide the {} query heads", k.size(1), q.size(1));
  AttentionCall call;
  call.inputs = {q, k, v};
  call.query = {.input = 0};
  call.key_heads = {.input = 1};
  call.value = {.input = 2};
  set_options(call, options, q.size(3));
  return call;
}

/// Channels per head if `parts` heads share the last axis.
int64_t head_dim(const Tensor& x, int64_t parts) {
  check(x.ndim() == 3, "attention: a joint projection is (B, T, channels), got {}", x.shape());
  check(parts > 0 && x.size(2) > 0 && x.size(2) % parts == 0,
        "attention: {} channels cannot be split into {} heads", x.size(2), parts);
  return x.size(2) / parts;
}

AttentionCall self_call(const Tensor& qkv, const HeadCounts& counts,
                        const AttentionOptions& options) {
  check_defined("self_attention", qkv);
  const auto [heads, kv] = detail::counted_heads("attention", counts.heads, counts.kv_heads);
  const char* name = "self_attention";
  const int64_t parts = checked_sum(name, heads, checked_product(name, 2, kv));
  check(qkv.ndim() != 3 || qkv.size(2) % parts == 0,
        "self_attention: {} channels cannot be split into {} query heads and {} heads each for "
        "keys and values: give a multiple of {} + 2 * {} channels",
        qkv.size(-1), heads, kv, heads, kv);
  const int64_t dim = head_dim(qkv, parts);
  AttentionCall call;
  call.inputs = {qkv};
  call.query = {.input = 0, .first = 0, .heads = heads, .dim = dim};
  call.key_heads = {.input = 0, .first = heads * dim, .heads = kv, .dim = dim};
  call.value = {.input = 0, .first = (heads + kv) * dim, .heads = kv, .dim = dim};
  set_options(call, options, dim);
  return call;
}

AttentionCall cross_call(const Tensor& q, const Tensor& kv, const HeadCounts& counts,
                         const AttentionOptions& options) {
  check_defined("cross_attention", q, kv);
  const auto [heads, kv_heads] = detail::counted_heads("attention", counts.heads, counts.kv_heads);
  const int64_t parts = checked_product("cross_attention", 2, kv_heads);
  const int64_t dim = head_dim(q, heads);
  check(kv.ndim() != 3 || kv.size(2) % parts == 0,
        "cross_attention: {} channels cannot be split into keys and values of {} heads each: give "
        "a multiple of 2 * {} channels",
        kv.size(-1), kv_heads, kv_heads);
  check(head_dim(kv, parts) == dim && kv.size(0) == q.size(0),
        "attention: queries {} of {} heads do not match keys and values {} of {} heads", q.shape(),
        heads, kv.shape(), kv_heads);
  AttentionCall call;
  call.inputs = {q, kv};
  call.query = {.input = 0, .first = 0, .heads = heads, .dim = dim};
  call.key_heads = {.input = 1, .first = 0, .heads = kv_heads, .dim = dim};
  call.value = {.input = 1, .first = kv_heads * dim, .heads = kv_heads, .dim = dim};
  set_options(call, options, dim);
  return call;
}

}  // namespace

Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                 const AttentionOptions& options) {
  return attend(call_on(q, k, v, options));
}

Attended attention_with_weights(const Tensor& q, const Tensor& k, const Tensor& v,
                                const AttentionOptions& options) {
  Op op("attention", q, k, v, options.mask.bias);
  AttentionCall call = call_on(q, k, v, options);
  // A node has one output. If gradients are recorded, public ops compute both.
  if (op.recording() || detail::composing()) return detail::composed_attention(call);
  std::optional<Fresh> weights(std::in_place, call.scores(), q.dtype());
  Tensor context = op.not_differentiable(forward(call, weights, {}));
  return {context, op.not_differentiable(*weights)};
}

Tensor self_attention(const Tensor& qkv, const HeadCounts& counts,
                      const AttentionOptions& options) {
  return attend(self_call(qkv, counts, options));
}

Tensor cross_attention(const Tensor& q, const Tensor& kv, const HeadCounts& counts,
                       const AttentionOptions& options) {
  return attend(cross_call(q, kv, counts, options));
}

Tensor composed::attention(const Tensor& q, const Tensor& k, const Tensor& v,
                           const AttentionOptions& options) {
  return detail::composed_attention(call_on(q, k, v, options)).context;
}

Tensor composed::self_attention(const Tensor& qkv, const HeadCounts& counts,
                                const AttentionOptions& options) {
  return join_heads(detail::composed_attention(self_call(qkv, counts, options)).context);
}

Tensor composed::cross_attention(const Tensor& q, const Tensor& kv, const HeadCounts& counts,
                                 const AttentionOptions& options) {
  return join_heads(detail::composed_attention(cross_call(q, kv, counts, options)).context);
}

Tensor detail::dropout_factors(const AttentionCall& call) {
  const Shape scores = call.scores();
  const Shape k = call.key_heads.of(call.inputs).shape();
  Fresh factors(scores, call.inputs[0].dtype());
  dispatch_float(factors.dtype(), "attention", [&]<class T>() {
    kernels::attention_dropout({scores[0], scores[1], k[1], scores[2], scores[3], k[3], k[3]},
                               detail::mask_of(call.dropout, call.key), factors.data<T>());
  });
  return not_differentiable(factors);
}

}  // namespace tern
