// Encoder and decoder layers and their stacks, with recomputation, and single steps with a cache
// for decoding.
#include "tern/nn/transformer.h"

namespace tern::nn {
namespace {

MultiHeadOptions attention_options(const TransformerLayerOptions& o) {
  return {
      .heads = o.heads, .kv_heads = o.kv_heads, .dropout = o.attention_dropout.value_or(o.dropout)};
}

PositionWiseFfn ffn_of(const TransformerLayerOptions& o, Rng& rng) {
  return {o.dim, o.ffn, rng, o.activation, o.ffn_dropout.value_or(o.dropout)};
}

AddNorm residual_of(const TransformerLayerOptions& o, Rng& rng) {
  return {o.dim, rng, o.dropout, o.norm_first, o.eps};
}

/// attention(query, memory, memory, mask). Writes its weights to `weights` unless that is null.
Tensor attend(const MultiHeadAttention& attention, const Tensor& query, const Tensor& memory,
              const Mask& mask, Tensor* weights) {
  if (!weights) return attention(query, memory, memory, mask);
  Attended y = attention.with_weights(query, memory, memory, mask);
  *weights = y.weights;
  return y.context;
}

int64_t checked_units(int64_t dim, int64_t hidden) {
  check(dim > 0 && hidden > 0,
        "PositionWiseFfn: needs at least one channel and one hidden unit, got {} and {}", dim,
        hidden);
  return hidden;
}

template <class Layer>
std::vector<Layer> stack_of(int64_t n, const TransformerLayerOptions& options, Rng& rng) {
  check(n >= 0, "Transformer: the number of layers must not be negative, got {}", n);
  std::vector<Layer> layers;
  for (int64_t i = 0; i < n; ++i) layers.emplace_back(options, rng);
  return layers;
}

std::optional<LayerNorm> final_norm_of(FinalNorm wanted, const TransformerLayerOptions& o) {
  if (wanted == FinalNorm::no) return {};
  return LayerNorm(o.dim, {.eps = o.eps});
}

}  // namespace

PositionWiseFfn::PositionWiseFfn(int64_t dim, int64_t hidden, Rng& rng, Activation f, double p)
    : linear1(dim, checked_units(dim, hidden), rng),
      linear2(hidden, dim, rng),
      dropout(p, rng),
      activation(f) {}

Tensor PositionWiseFfn::operator()(const Tensor& x) const {
  return linear2(
      linear1(x, {.activation = activation, .dropout = dropout.rate(), .rng = &dropout.rng}));
}

AddNorm::AddNorm(int64_t dim, Rng& rng, double p, bool first, double eps)
    : norm(dim, {.eps = eps}), dropout(p, rng), norm_first(first) {}

TransformerEncoderLayer::TransformerEncoderLayer(const TransformerLayerOptions& o, Rng& rng)
    : self_attn(o.dim, rng, attention_options(o)),
      ffn(ffn_of(o, rng)),
      residual1(residual_of(o, rng)),
      residual2(residual_of(o, rng)) {}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const Mask& mask,
                                           Tensor* weights) const {
  auto attended = [&](const Tensor& h) { return attend(self_attn, h, h, mask, weights); };
  if (!residual1.norm_first) return residual2(residual1(x, attended), ffn);
  const SumAndNorm y = residual1.pass(x, attended(residual1.norm(x)), residual2);
  return residual2.dropout.add(ffn(y.norm), y.sum);
}

DecoderLayerState DecoderLayerState::select_rows(const Tensor& rows) const {
  return {self.select_rows(rows), index_select(memory, 0, rows)};
}

TransformerDecoderLayer::TransformerDecoderLayer(const TransformerLayerOptions& o, Rng& rng)
    : self_attn(o.dim, rng, attention_options(o)),
      multihead_attn(o.dim, rng, attention_options(o)),
      ffn(ffn_of(o, rng)),
      residual1(residual_of(o, rng)),
      residual2(residual_of(o, rng)),
      residual3(residual_of(o, rng)) {}

Tensor TransformerDecoderLayer::operator()(const Tensor& x, const Tensor& memory, const Mask& mask,
                                           const Mask& memory_mask, Weights* weights) const {
  auto own = [&](const Tensor& h) {
    return attend(self_attn, h, h, mask, weights ? &weights->self : nullptr);
  };
  auto other = [&](const Tensor& h) {
    return attend(multihead_attn, h, memory, memory_mask, weights ? &weights->memory : nullptr);
  };
  if (!residual1.norm_first) return residual3(residual2(residual1(x, own), other), ffn);
  SumAndNorm y = residual1.pass(x, own(residual1.norm(x)), residual2);
  y = residual2.pass(y.sum, other(y.norm), residual3);
  return residual3.dropout.add(ffn(y.norm), y.sum);
}

DecoderLayerState TransformerDecoderLayer::start(const Tensor& memory) const {
  return {{}, multihead_attn.project_memory(memory)};
}

Tensor TransformerDecoderLayer::step(const Tensor& x, DecoderLayerState& state,
                                     const Mask& memory_mask) const {
  Tensor y = residual1(x, [&](const Tensor& h) { return self_attn.step(h, state.self); });
  y = residual2(y, [&](const Tensor& h) {
    return multihead_attn.attend_memory(h, state.memory, memory_mask);
  });
  return residual3(y, ffn);
}

TransformerEncoder::TransformerEncoder(int64_t n, const TransformerLayerOptions& options, Rng& rng,
                                       FinalNorm final_norm)
    : layers(stack_of<TransformerEncoderLayer>(n, options, rng)),
      norm(final_norm_of(final_norm, options)),
      recompute(options.recompute) {}

Tensor TransformerEncoder::operator()(const Tensor& x, const Mask& mask,
                                      std::vector<Tensor>* weights) const {
  Tensor y = x;
  if (weights) weights->assign(layers.size(), {});
  for (size_t i = 0; i < layers.size(); ++i) {
    if (weights) {
      y = layers[i](y, mask, &(*weights)[i]);
      continue;
    }
    y = recomputed(recompute, {y}, [&layer = layers[i], mask](std::span<const Tensor> in) {
      return layer(in[0], mask);
    });
  }
  return norm ? (*norm)(y) : y;
}

TransformerDecoder::TransformerDecoder(int64_t n, const TransformerLayerOptions& options, Rng& rng,
                                       FinalNorm final_norm)
    : layers(stack_of<TransformerDecoderLayer>(n, options, rng)),
      norm(final_norm_of(final_norm, options)),
      recompute(options.recompute) {}

Tensor TransformerDecoder::operator()(const Tensor& x, const Tensor& memory, const Mask& mask,
                                      const Mask& memory_mask, Weights* weights) const {
  Tensor y = x;
  if (weights) weights->assign(layers.size(), {});
  for (size_t i = 0; i < layers.size(); ++i) {
    if (weights) {
      y = layers[i](y, memory, mask, memory_mask, &(*weights)[i]);
      continue;
    }
    auto layer = [&layer = layers[i], mask, memory_mask](std::span<const Tensor> in) {
      return layer(in[0], in[1], mask, memory_mask);
    };
    y = recomputed(recompute, {y, memory}, layer);
  }
  return norm ? (*norm)(y) : y;
}

TransformerDecoder::State TransformerDecoder::start(const Tensor& memory) const {
  State state;
  for (const TransformerDecoderLayer& layer : layers) state.push_back(layer.start(memory));
  return state;
}

Tensor TransformerDecoder::step(const Tensor& x, State& state, const Mask& memory_mask) const {
  check(state.size() == layers.size(),
        "TransformerDecoder: the state has {} layers, but the decoder has {}", state.size(),
        layers.size());
  Tensor y = x;
  for (size_t i = 0; i < layers.size(); ++i) y = layers[i].step(y, state[i], memory_mask);
  return norm ? (*norm)(y) : y;
}

}  // namespace tern::nn
