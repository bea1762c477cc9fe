// Packs the matrices of a Transformer layer by layer, and creates decoders.
#include "tern/decode/packed_transformer.h"

#include <algorithm>

#include "tern/core/tape/autograd.h"
#include "tern/decode/packed_decoder.h"
#include "tern/decode/packed_weights.h"

namespace tern::decoding {
namespace {

PackedFfn packed(const nn::PositionWiseFfn& ffn, PackedType type) {
  return {{ffn.linear1.weight, ffn.linear1.bias, type},
          {ffn.linear2.weight, ffn.linear2.bias, type},
          ffn.activation};
}

PackedEncoderLayer packed(const nn::TransformerEncoderLayer& l, PackedType type) {
  return {{l.self_attn, PackedAttention::Kind::self, type},
          packed(l.ffn, type),
          PackedNorm(l.residual1.norm),
          PackedNorm(l.residual2.norm),
          l.residual1.norm_first};
}

PackedDecoderLayer packed(const nn::TransformerDecoderLayer& l, PackedType type) {
  return {{l.self_attn, PackedAttention::Kind::self, type},
          {l.multihead_attn, PackedAttention::Kind::memory, type},
          packed(l.ffn, type),
          PackedNorm(l.residual1.norm),
          PackedNorm(l.residual2.norm),
          PackedNorm(l.residual3.norm),
          l.residual1.norm_first};
}

PackedNorm packed(const std::optional<nn::LayerNorm>& norm) {
  return norm ? PackedNorm(*norm) : PackedNorm();
}

const models::Transformer& checked(const models::Transformer& model) {
  check(model.src_embed.weight.dtype() == DType::f32,
        "PackedTransformer: the model is {}, but only f32 models can be packed; use "
        "decoding::beam_search",
        model.src_embed.weight.dtype());
  check_unhooked("PackedTransformer", nn::parameters(model));
  return model;
}

}  // namespace

PackedTransformer::Weights::Weights(const models::Transformer& m, PackedType t,
                                    Shortlists shortlists, models::Transformer* taken)
    : type(t),
      dim(checked(m).options.layer.dim),
      source{m.src_embed.weight.tensor().detach().contiguous()},
      target{m.options.tie_source_target ? source : m.target_table.tensor().detach().contiguous()},
      encoder_norm(packed(m.transformer.encoder.norm)),
      decoder_norm(packed(m.transformer.decoder.norm)),
      generator(m.options.tie_target_generator ? target : m.generator_weight.tensor().detach(),
                m.generator_bias.tensor().detach(), t, shortlists) {
  // Packs from the last layer to the first, so that packed layers can be popped.
  if (taken) const nn::Parameter gone = std::move(taken->generator_weight);
  auto pack = [&](const auto& layers, auto* own, auto& to) {
    for (size_t i = layers.size(); i-- > 0;) {
      to.push_back(packed(layers[i], t));
      if (own) own->pop_back();
    }
    std::reverse(to.begin(), to.end());
  };
  pack(m.transformer.encoder.layers, taken ? &taken->transformer.encoder.layers : nullptr, encoder);
  pack(m.transformer.decoder.layers, taken ? &taken->transformer.decoder.layers : nullptr, decoder);
}

PackedTransformer::PackedTransformer(const models::Transformer& model, PackedType type,
                                     Shortlists shortlists) {
  NoGradGuard no_grad;
  weights_ = std::make_unique<Weights>(model, type, shortlists, nullptr);
}
PackedTransformer::PackedTransformer(models::Transformer&& model, PackedType type,
                                     Shortlists shortlists) {
  NoGradGuard no_grad;
  weights_ = std::make_unique<Weights>(model, type, shortlists, &model);
}
PackedTransformer::~PackedTransformer() = default;
PackedTransformer::PackedTransformer(PackedTransformer&&) noexcept = default;
PackedTransformer& PackedTransformer::operator=(PackedTransformer&&) noexcept = default;

int64_t PackedTransformer::bytes() const {
  int64_t sum = weights_->generator.bytes();
  for (const auto& l : weights_->encoder) sum += l.self.bytes() + l.ffn.bytes();
  for (const auto& l : weights_->decoder) sum += l.self.bytes() + l.memory.bytes() + l.ffn.bytes();
  return sum;
}

std::unique_ptr<SlotDecoder> PackedTransformer::decoder() const {
  return std::make_unique<PackedDecoder>(*weights_);
}

}  // namespace tern::decoding
