// Projections of queries, keys and values, attention by the fused ops, and the cache of keys and
// values for decoding.
#include "tern/nn/multihead_attention.h"

#include <algorithm>

#include "tern/core/ops/attention/heads.h"
#include "tern/core/ops/composed_scope.h"
#include "tern/core/tape/autograd.h"
#include "tern/core/tape/op.h"
#include "tern/core/tape/record.h"
#include "tern/nn/init.h"

namespace tern::nn {
namespace {

using tern::detail::join_heads;
using tern::detail::split_heads;

HeadCounts counts_of(const MultiHeadOptions& o) {
  return tern::detail::counted_heads("MultiHeadAttention", o.heads, o.kv_heads);
}

/// Returns dim if a layer can be made of it.
int64_t checked(int64_t dim, const MultiHeadOptions& o) {
  tern::detail::check_heads("MultiHeadAttention", dim, o.heads);
  counts_of(o);
  check(o.dropout >= 0 && o.dropout < 1, "MultiHeadAttention: dropout must be in [0, 1), it is {}",
        o.dropout);
  return dim;
}

void check_agree(const Tensor& query, const Tensor& key, const Tensor& value) {
  auto agree = [](const Tensor& a, const Tensor& b, int64_t axis) {
    return a.ndim() != 3 || b.ndim() != 3 || a.size(axis) == b.size(axis);
  };
  check(agree(query, key, 0) && agree(key, value, 0) && agree(key, value, 1),
        "MultiHeadAttention: query {}, key {} and value {} differ in examples or keys",
        query.shape(), key.shape(), value.shape());
}

/// Room for `capacity` tokens; the first ones are those of `old` (undefined: none).
Tensor with_room(const Tensor& old, const Tensor& like, int64_t length, int64_t capacity) {
  Tensor room = empty({like.size(0), like.size(1), capacity, like.size(3)}, like.dtype());
  if (length > 0) copy_(narrow(room, 2, 0, length), narrow(old, 2, 0, length));
  return room;
}

}  // namespace

Tensor KeyValueCache::keys() const {
  return keys_.defined() ? narrow(keys_, 2, 0, length_) : keys_;
}

Tensor KeyValueCache::values() const {
  return values_.defined() ? narrow(values_, 2, 0, length_) : values_;
}

bool KeyValueCache::may_write(int64_t more) const {
  return written_ && *written_ == length_ && length_ + more <= keys_.size(2);
}

void KeyValueCache::append(const Tensor& k, const Tensor& v) {
  check(k.ndim() == 4 && v.shape() == k.shape() && v.dtype() == k.dtype(),
        "KeyValueCache: needs keys and values (B, G, n, D), got {} {} and {} {}", k.dtype(),
        k.shape(), v.dtype(), v.shape());
  if (keys_.defined())
    check(keys_.size(0) == k.size(0) && keys_.size(1) == k.size(1) && keys_.size(3) == k.size(3) &&
              keys_.dtype() == k.dtype(),
          "KeyValueCache: cannot append {} {} to {} {}", k.dtype(), k.shape(), keys_.dtype(),
          keys().shape());
  const int64_t n = k.size(2);
  // Gradients must flow back through the steps, and observers must see them.
  if (recording({k, v, keys_, values_}) || tern::detail::composing()) {
    keys_ = keys_.defined() ? cat({keys(), k}, 2) : k;
    values_ = values_.defined() ? cat({values(), v}, 2) : v;
    length_ += n;
    written_ = nullptr;
    return;
  }
  NoGradGuard no_grad;
  if (!may_write(n)) {
    constexpr int64_t kLeast = 16;
    const int64_t capacity = std::max(kLeast, 2 * (length_ + n));
    keys_ = with_room(keys_, k, length_, capacity);
    values_ = with_room(values_, v, length_, capacity);
    written_ = std::make_shared<int64_t>(length_);
  }
  copy_(narrow(keys_, 2, length_, n), k.detach());
  copy_(narrow(values_, 2, length_, n), v.detach());
  length_ += n;
  *written_ = length_;
}

KeyValueCache KeyValueCache::select_rows(const Tensor& rows) const {
  KeyValueCache out = *this;
  if (!keys_.defined()) return out;
  out.keys_ = index_select(keys_, 0, rows);
  out.values_ = index_select(values_, 0, rows);
  if (written_) out.written_ = std::make_shared<int64_t>(length_);
  return out;
}

MultiHeadAttention::MultiHeadAttention(int64_t dim, Rng& source, const MultiHeadOptions& o)
    : out_proj(checked(dim, o), dim, source, o.bias),
      counts(counts_of(o)),
      dropout(o.dropout),
      rng(source.split()) {
  const int64_t rows = (o.heads + 2 * counts.kv_heads) * (dim / o.heads);
  in_proj_weight = Parameter(empty({rows, dim}));
  init::xavier_uniform(in_proj_weight, source);
  if (o.bias == Bias::no) return;
  in_proj_bias = Parameter(zeros({rows}));
  init::constant(out_proj.bias, 0);
}

AttentionOptions MultiHeadAttention::options(const Mask& mask) const {
  const double p = training ? dropout : 0;
  return {.mask = mask.parts(), .scale = {}, .dropout = p, .rng = &rng};
}

// The rows of in_proj for q, k and v follow each other.
Tensor MultiHeadAttention::project(Part part, const Tensor& x) const {
  ModuleScope module(in_proj_weight);
  const int64_t dim = in_proj_weight.size(1);
  check(x.ndim() == 3 && x.size(2) == dim, "MultiHeadAttention: needs (B, T, {}), got {}{}", dim,
        x.shape(), x.ndim() == 2 ? "; unsqueeze(x, 0) makes a batch of one" : "");
  if (part == Part::all) return linear(x, in_proj_weight, in_proj_bias);
  const int64_t q = counts.heads * head_dim(), kv = counts.kv_heads * head_dim();
  const int64_t first = part == Part::query ? 0 : part == Part::value ? q + kv : q;
  const int64_t rows = part == Part::query ? q : part == Part::key_value ? 2 * kv : kv;
  Tensor bias = in_proj_bias.defined() ? narrow(in_proj_bias, 0, first, rows) : Tensor();
  return linear(x, narrow(in_proj_weight, 0, first, rows), bias);
}

Tensor MultiHeadAttention::heads(Part part, const Tensor& x) const {
  return split_heads(project(part, x), part == Part::query ? counts.heads : counts.kv_heads);
}

Tensor MultiHeadAttention::operator()(const Tensor& x, const Mask& mask) const {
  ModuleScope module(in_proj_weight);
  return out_proj(self_attention(project(Part::all, x), counts, options(mask)));
}

Tensor MultiHeadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const Mask& mask) const {
  ModuleScope module(in_proj_weight);
  check_agree(query, key, value);
  if (key.ref() == value.ref())
    return query.ref() == key.ref() ? (*this)(query, mask)
                                    : attend_memory(query, project_memory(key), mask);
  Tensor y = attention(heads(Part::query, query), heads(Part::key, key), heads(Part::value, value),
                       options(mask));
  return out_proj(join_heads(y));
}

Attended MultiHeadAttention::with_weights(const Tensor& query, const Tensor& key,
                                          const Tensor& value, const Mask& mask) const {
  ModuleScope module(in_proj_weight);
  check_agree(query, key, value);
  Attended y = attention_with_weights(heads(Part::query, query), heads(Part::key, key),
                                      heads(Part::value, value), options(mask));
  return {out_proj(join_heads(y.context)), y.weights};
}

Tensor MultiHeadAttention::project_memory(const Tensor& memory) const {
  return project(Part::key_value, memory);
}

Tensor MultiHeadAttention::attend_memory(const Tensor& query, const Tensor& projected,
                                         const Mask& mask) const {
  ModuleScope module(in_proj_weight);
  const int64_t channels = 2 * counts.kv_heads * head_dim();
  check(projected.ndim() == 3 && projected.size(2) == channels,
        "MultiHeadAttention: needs keys and values (B, S, {}) from project_memory, got {}",
        channels, projected.shape());
  return out_proj(cross_attention(project(Part::query, query), projected, counts, options(mask)));
}

Tensor MultiHeadAttention::step(const Tensor& x, KeyValueCache& cache) const {
  ModuleScope module(in_proj_weight);
  const int64_t q = counts.heads * head_dim(), kv = counts.kv_heads * head_dim();
  std::vector<Tensor> qkv = split(project(Part::all, x), std::vector<int64_t>{q, kv, kv}, -1);
  const int64_t before = cache.length();
  cache.append(split_heads(qkv[1], counts.kv_heads), split_heads(qkv[2], counts.kv_heads));
  Tensor y = attention(split_heads(qkv[0], counts.heads), cache.keys(), cache.values(),
                       options(Mask::causal(before)));
  return out_proj(join_heads(y));
}

}  // namespace tern::nn
