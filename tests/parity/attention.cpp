// Subjects with attention: multi-head attention, AttentionLayer, encoder layer, transformer.
#include "tern/models/transformer.h"
#include "tern/tests/parity/subjects.h"

namespace tern::parity {
namespace {

struct AttnField {
  nn::MultiHeadAttention attn;
  static void fields(auto& m, auto&& visit) { visit("attn", m.attn); }
};

Subject multihead_subject(const Reference& r, Rng& rng) {
  const int64_t dim = r.param("attn.out_proj.weight").size(0);
  AttnField m{nn::MultiHeadAttention(dim, rng, {.heads = r.option("heads")})};
  return make(r, std::move(m), [](const auto& n, const Inputs& x) {
    return n.attn(x[0], x[1], x[1], nn::Mask::lengths(x[2]));
  });
}

Subject conv_subject(const Reference& r, Rng& rng) {
  const Tensor& q = r.param("conv_Q.weight");
  return make(r, nn::AttentionLayer(q.size(1), r.param("conv_V.weight").size(0), q.size(0), rng));
}

nn::TransformerLayerOptions layer_options(const Reference& r, int64_t dim, int64_t ffn) {
  nn::TransformerLayerOptions o;
  o.dim = dim;
  o.ffn = ffn;
  o.heads = r.option("heads");
  o.dropout = 0;
  o.norm_first = r.config.value("norm_first", false);
  if (r.config.value("activation", "relu") == std::string("gelu")) o.activation = Activation::gelu;
  return o;
}

Subject encoder_layer_subject(const Reference& r, Rng& rng) {
  const Tensor& w = r.param("linear1.weight");
  return make(r, nn::TransformerEncoderLayer(layer_options(r, w.size(1), w.size(0)), rng));
}

Subject transformer_subject(const Reference& r, Rng& rng) {
  models::TransformerOptions o;
  o.source_vocab = r.param("src_embed.weight").size(0);
  o.target_vocab = r.param("tgt_embed.weight").size(0);
  o.encoder_layers = o.decoder_layers = r.option("layers");
  const Tensor& w = r.param("transformer.encoder.layers.0.linear1.weight");
  o.layer = layer_options(r, w.size(1), w.size(0));
  Subject s = make(r, models::Transformer(o, rng),
                   [](const auto& m, const Inputs& x) { return m(x[0], x[1], x[2]); });
  s.loss = token_loss(r);
  return s;
}

}  // namespace

std::optional<Subject> attention_subject(const Reference& r, Rng& rng) {
  auto is = [&](const char* name) { return r.name == name; };
  if (is("mha_masked")) return multihead_subject(r, rng);
  if (is("conv_attention")) return conv_subject(r, rng);
  if (is("encoder_layer_prenorm")) return encoder_layer_subject(r, rng);
  if (is("transformer") || is("transformer_prenorm")) return transformer_subject(r, rng);
  return std::nullopt;
}

}  // namespace tern::parity
