// Packs the matrices of GPT-2 or Llama block by block, and computes logits of whole texts.
#include "tern/decode/packed_gpt.h"

#include <algorithm>
#include <utility>

#include "tern/core/base/allocator.h"
#include "tern/core/tape/autograd.h"
#include "tern/decode/packed_gpt_texts.h"
#include "tern/nn/unfilled.h"

namespace tern::decoding {
namespace {

using models::GptLinear;

/// The matrices of layers with the same input, stacked below each other.
PackedLinear packed(const std::vector<const GptLinear*>& layers, PackedType type) {
  std::vector<Tensor> weights, biases;
  for (const GptLinear* l : layers) {
    const Tensor w = l->weight.tensor().detach();
    weights.push_back(l->transposed ? transpose(w, 0, 1) : w);
    if (l->bias.defined()) biases.push_back(l->bias.tensor().detach());
  }
  if (layers.size() == 1) return {weights[0], biases.empty() ? Tensor() : biases[0], type};
  return {cat(weights, 0), biases.empty() ? Tensor() : cat(biases, 0), type};
}

PackedNorm packed(const models::GptNormLayer& norm) {
  return std::visit([](const auto& n) { return PackedNorm(n); }, norm);
}

Activation activation_of(models::GptFfn ffn) {
  if (ffn == models::GptFfn::gelu_erf) return Activation::gelu;
  return ffn == models::GptFfn::swiglu ? Activation::silu : Activation::gelu_tanh;
}

PackedGptLayer packed(const models::GptBlock& b, PackedType type) {
  const models::GptAttention& a = b.attention;
  std::vector<const GptLinear*> in, hidden;
  for (const auto* part : {&a.c_attn, &a.q_proj, &a.k_proj, &a.v_proj})
    if (*part) in.push_back(&**part);
  if (b.mlp.gate) hidden.push_back(&*b.mlp.gate);
  hidden.push_back(&b.mlp.up);
  PackedGptLayer layer{packed(b.norm1),
                       packed(b.norm2),
                       {a.counts, packed(in, type), packed({&a.out}, type)},
                       {packed(hidden, type), packed({&b.mlp.down}, type),
                        activation_of(b.mlp.kind), b.mlp.gate.has_value()},
                       {},
                       {},
                       {},
                       {},
                       !a.turn        ? -1
                       : a.window > 0 ? 1
                                      : 0,
                       a.window};
  if (a.q_norm) layer.q_norm = PackedNorm(*a.q_norm), layer.k_norm = PackedNorm(*a.k_norm);
  if (b.post_norm1) layer.post_norm1 = packed(*b.post_norm1);
  if (b.post_norm2) layer.post_norm2 = packed(*b.post_norm2);
  return layer;
}

const models::Gpt& checked(const models::Gpt& model) {
  check(model.body.embed.dtype() == DType::f32,
        "PackedGpt: the model is {}, but only f32 models can be packed; decode it without packing",
        model.body.embed.dtype());
  check_unhooked("PackedGpt", nn::parameters(model));
  return model;
}

}  // namespace

PackedGpt::Weights::Weights(const models::Gpt& m, PackedType t, models::Gpt* taken,
                            const std::function<void(int64_t)>& fill)
    : type(t),
      options(checked(m).options),
      table(taken ? EmbeddingTable::compact(m.body.embed.tensor().detach())
                  : EmbeddingTable(m.body.embed.tensor().detach())),
      positions(m.body.positions.defined() ? m.body.positions.tensor().detach().contiguous()
                                           : zeros({1, options.dim})),
      norm(packed(m.body.norm)),
      head((options.tie_head ? m.body.embed : m.head).tensor().detach(), Tensor(),
           t == PackedType::int4 ? PackedType::int8 : t) {
  for (const models::GptBlock& block : m.body.blocks)
    if (block.attention.turn) turns[block.attention.window > 0 ? 1 : 0] = *block.attention.turn;
  if (t == PackedType::f32 && options.tie_head) table = {};  // a copy of the head
  if (taken) {
    const nn::Parameter head_gone = std::move(taken->head),
                        table_gone = std::move(taken->body.embed);
  }
  // Packs from the last block to the first, so that packed blocks can be popped.
  for (size_t i = m.body.blocks.size(); i-- > 0;) {
    fill(static_cast<int64_t>(i));
    layers.push_back(packed(m.body.blocks[i], t));
    if (taken) taken->body.blocks.pop_back();
  }
  std::reverse(layers.begin(), layers.end());
}

PackedGpt::PackedGpt(const models::Gpt& model, PackedType type) {
  NoGradGuard no_grad;
  weights_ = std::make_unique<Weights>(model, type, nullptr);
}
PackedGpt::PackedGpt(models::Gpt&& model, PackedType type) {
  NoGradGuard no_grad;
  weights_ = std::make_unique<Weights>(model, type, &model);
  trim_memory();
}
PackedGpt::PackedGpt(const models::GptOptions& options, PackedType type, const ReadLayer& read) {
  NoGradGuard no_grad;
  Rng rng(0);
  {
    models::Gpt model = nn::unfilled([&] { return models::Gpt(options, rng); });
    std::vector<models::GptBlock> blocks = std::exchange(model.body.blocks, {});
    models::load_gpt_state(read(-1), model);
    model.body.blocks = std::move(blocks);
    weights_ = std::make_unique<Weights>(model, type, &model, [&](int64_t layer) {
      models::load_gpt_layer(read(layer), model, layer);
    });
  }
  trim_memory();
}
PackedGpt::~PackedGpt() = default;
PackedGpt::PackedGpt(PackedGpt&&) noexcept = default;
PackedGpt& PackedGpt::operator=(PackedGpt&&) noexcept = default;

int64_t PackedGpt::bytes() const {
  int64_t sum = weights_->table.bytes() + weights_->head.bytes();
  for (const PackedGptLayer& l : weights_->layers) sum += l.attention.bytes() + l.ffn.bytes();
  return sum;
}

Tensor PackedGpt::operator()(const Tensor& tokens) const {
  check(tokens.ndim() == 2 && tokens.dtype() == DType::i64,
        "PackedGpt: tokens are i64 (B, T), got {} {}", tokens.dtype(), tokens.shape());
  NoGradGuard no_grad;
  const Tensor given = tokens.contiguous();
  const int64_t batch = given.size(0), length = given.size(1), vocab = weights_->options.vocab;
  Tensor logits = empty({batch, length, vocab});
  for (int64_t b = 0; b < batch; ++b)
    PackedGptTexts(*weights_).score(
        {given.data<int64_t>() + b * length, static_cast<size_t>(length)},
        logits.mutable_data<float>() + b * length * vocab);
  return logits;
}

std::unique_ptr<TextStepper> PackedGpt::texts() const {
  return std::make_unique<PackedGptTexts>(*weights_);
}

}  // namespace tern::decoding
