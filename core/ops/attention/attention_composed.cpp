// Attention by public ops, for second derivatives and for attention_with_weights if recorded. Also
// the checks of masks and the layout of heads within joint projections.
#include <algorithm>
#include <limits>

#include "tern/core/ops/attention/attention_call.h"
#include "tern/core/ops/attention/heads.h"
#include "tern/core/ops/ops.h"
#include "tern/core/ops/products/matmul.h"

namespace tern {
namespace detail {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

/// Repeats every head of keys or values for each head of queries that it serves.
Tensor for_all_heads(const Tensor& x, int64_t heads) {
  return x.size(1) == heads ? x : repeat_interleave(x, heads / x.size(1), 1);
}

void check_spreads(const char* what, const Tensor& x, const Shape& scores) {
  if (!x.defined()) return;
  check(broadcasts_to(x.shape(), scores),
        "attention: the {} of shape {} does not broadcast to the scores (B, H, T, S) = {}; "
        "examples come before heads: (B, 1, T, S)",
        what, x.shape(), scores);
}

void check_lengths(const Tensor& lengths, const Shape& scores) {
  if (!lengths.defined()) return;
  const int64_t batch = scores[0], queries = scores[2], keys = scores[3];
  check(lengths.dtype() == DType::i64, "attention: lengths are i64, got {}", lengths.dtype());
  check(lengths.shape() == Shape{batch} || lengths.shape() == Shape{batch, queries},
        "attention: lengths must be ({},) or ({}, {}), got {}", batch, batch, queries,
        lengths.shape());
  for (int64_t n : lengths.to_vector<int64_t>())
    check(n >= 0 && n <= keys, "attention: a length is {}, outside [0, {} keys]", n, keys);
}

}  // namespace

void check_mask(const AttentionMask& mask, const Shape& scores) {
  check(!mask.allowed.defined() || mask.allowed.dtype() == DType::u8,
        "attention: the mask of allowed keys must be u8 (0 = hidden), got {}",
        mask.allowed.defined() ? mask.allowed.dtype() : DType::u8);
  check_lengths(mask.lengths, scores);
  check_spreads("mask of allowed keys", mask.allowed, scores);
  check_spreads("bias", mask.bias, scores);
}

Layout HeadsOf::layout(const Layout& x) const {
  if (dim == 0) return x;
  Layout y = x;
  y.shape = {x.shape[0], heads, x.shape[1], dim};
  y.strides = {x.strides[0], dim * x.strides[2], x.strides[1], x.strides[2]};
  y.offset += first * x.strides[2];
  return y;
}

Tensor HeadsOf::of(const std::vector<Operand>& inputs) const {
  const Tensor& x = inputs[static_cast<size_t>(input)].tensor();
  if (dim == 0) return x;
  return split_heads(narrow(x, -1, first, heads * dim), heads);
}

Shape AttentionCall::scores() const {
  const Layout q = query.layout(inputs[static_cast<size_t>(query.input)].layout());
  const Layout k = key_heads.layout(inputs[static_cast<size_t>(key_heads.input)].layout());
  return {q.shape[0], q.shape[1], q.shape[2], k.shape[2]};
}

AttentionCall AttentionCall::without_inputs() const {
  AttentionCall rest = *this;
  rest.inputs.clear();
  rest.mask.bias = {};
  return rest;
}

Attended composed_attention(const AttentionCall& call) {
  const Tensor q = call.query.of(call.inputs), k = call.key_heads.of(call.inputs),
               v = call.value.of(call.inputs);
  Op op("attention", q, k, v);
  Tensor scores = matmul(q, transposed(for_all_heads(k, q.size(1)))) * call.scale;
  const Tensor& bias = call.mask.bias;
  if (bias.defined()) scores = scores + masked_fill(bias, eq(bias.detach(), -kInf), 0);
  const Tensor seen = seen_keys(call.mask, scores.shape());
  Tensor p = softmax(scores, -1, seen);
  const Tensor context =
      matmul(call.dropout > 0 ? p * dropout_factors(call) : p, for_all_heads(v, q.size(1)));
  if (!bias.defined() && call.dropout == 0)
    op.note("scale", call.scale, "mask", seen, "result", context);
  return {context, p};
}

}  // namespace detail

AttentionMask detail::within_scores(AttentionMask mask, const Shape& scores) {
  for (std::optional<int64_t>* bound : {&mask.causal, &mask.from})
    if (*bound) *bound = std::clamp(**bound, -scores[2], scores[3]);
  return mask;
}

Tensor seen_keys(const AttentionMask& given, const Shape& scores) {
  detail::check_mask(given, scores);
  const AttentionMask mask = detail::within_scores(given, scores);
  Tensor seen = mask.allowed;
  auto join = [&](const Tensor& t) { seen = seen.defined() ? logical_and(seen, t) : t; };
  const int64_t batch = scores[0], queries = scores[2], keys = scores[3];
  if (mask.lengths.defined()) {
    Tensor lengths = mask.lengths.ndim() == 1 ? reshape(mask.lengths, {batch, 1, 1, 1})
                                              : reshape(mask.lengths, {batch, 1, queries, 1});
    join(lt(arange(0, keys), lengths));
  }
  if (mask.causal)
    join(le(arange(0, keys), reshape(arange(*mask.causal, *mask.causal + queries), {queries, 1})));
  if (mask.from)
    join(ge(arange(0, keys), reshape(arange(*mask.from, *mask.from + queries), {queries, 1})));
  if (mask.bias.defined()) join(ne(mask.bias.detach(), -detail::kInf));
  return seen;
}

}  // namespace tern
