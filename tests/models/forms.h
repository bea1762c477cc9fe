// Options of small models, one for every option that changes the graph. GPT's: tests/gpt_forms.h.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tern/models/bert.h"
#include "tern/models/gmlp.h"
#include "tern/models/ntm.h"
#include "tern/models/resnet.h"
#include "tern/models/transformer.h"
#include "tern/models/vit.h"
#include "tern/tests/support/option_pairs.h"

namespace tern::test {

// ---- Images ------------------------------------------------------------------------------------

/// Halves the side of an image, which has 8 or 9 pixels.
inline models::Stem pooling_stem() {
  return {{.channels = 4}, {.channels = 6, .pool = true}, {.channels = 6, .residual = true}};
}

inline models::GmlpOptions tiny_gmlp() {
  return {.image = 8, .patch = 4, .dim = 8, .layers = 2, .fc_dim = 6};
}

/// Options of the gates, which gMLPs for images and for texts have.
template <class O>
Choices<O> gate_choices() {
  using nn::Gate, nn::SpatialMatrix;
  return {
      {{"additive", [](auto& o) { o.gate.gate = Gate::additive; }},
       {"linear", [](auto& o) { o.gate.gate = Gate::linear, o.gate.split = false; }}},
      {{"unsplit", [](auto& o) { o.gate.split = false; }}},
      {{"heads", [](auto& o) { o.gate.heads = 4; }}},
      {{"toeplitz", [](auto& o) { o.gate.matrix = SpatialMatrix::toeplitz; }},
       {"circulant", [](auto& o) { o.gate.matrix = SpatialMatrix::circulant; }}},
  };
}

inline Choices<models::GmlpOptions> gmlp_choices() {
  auto out = gate_choices<models::GmlpOptions>();
  const Choices<models::GmlpOptions> more = {
      {{"causal", [](auto& o) { o.gate.causal = true, o.class_token = false; }}},
      {{"start near 0", [](auto& o) { o.gate.weight_bound = 1e-6; }}},
      {{"attention", [](auto& o) { o.attention_dim = 4; }}},
      {{"stem",
        [](auto& o) {
          o.stem = {{4, 1}, {6, 2}};
          if (o.image == 9) o.patch = 5;  // the stem leaves 5 pixels
        }},
       {"stem that pools and adds", [](auto& o) { o.stem = pooling_stem(), o.patch = 2; }}},
      {{"mean", [](auto& o) { o.class_token = false; }}},
      {{"no positions", [](auto& o) { o.positions = false; }}},
      {{"no second GELU", [](auto& o) { o.output_gelu = false; }}},
      {{"head at once", [](auto& o) { o.fc_dim = 0; }}},
      {{"no dropout", [](auto& o) { o.dropout = 0; }}},
      {{"drop path", [](auto& o) { o.drop_path = 0.2; }}},
      {{"timm's names", [](auto& o) { o.naming = models::GmlpNaming::timm; }}},
      {{"one layer", [](auto& o) { o.layers = 1; }}},
      {{"odd sizes",
        [](auto& o) {
          o.dim = 7, o.d_ffn = 24, o.image = 9;
          if (o.patch == 4) o.patch = o.stem.empty() ? 3 : 5;
        }}},
  };
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

inline models::VitOptions tiny_vit() {
  return {.image = 8, .patch = 4, .dim = 8, .layers = 2, .heads = 2, .mlp_dim = 12, .classes = 10};
}

// Names and options.
inline std::vector<std::pair<std::string, models::VitOptions>> vit_forms() {
  std::vector<std::pair<std::string, models::VitOptions>> out = {{"timm", tiny_vit()}};
  auto form = [&](const char* name) -> models::VitOptions& {
    out.emplace_back(name, tiny_vit());
    return out.back().second;
  };
  form("sin-cos").positions = models::VitPositions::sincos;
  form("no positions").positions = models::VitPositions::none;
  form("average").pooling = models::VitPooling::average;
  models::VitOptions& average = form("average without a class token");
  average.pooling = models::VitPooling::average;
  average.class_token = false;
  average.final_norm = models::VitFinalNorm::tokens;
  models::VitOptions& registers = form("registers without positions, layer scale");
  registers.registers = 3;
  registers.positions_on_prefix = false;
  registers.layer_scale = 0.5;
  models::VitOptions& clip = form("norm before the blocks, hidden layer, no bias of qkv");
  clip.norm_pre = true;
  clip.fc_dim = 6;
  clip.qkv_bias = false;
  clip.final_norm = models::VitFinalNorm::pooled;
  models::VitOptions& post = form("post-norm");
  post.norm_first = false;
  post.final_norm = models::VitFinalNorm::none;
  post.activation = Activation::relu;
  form("no head").classes = 0;
  models::VitOptions& stem = form("stem");
  stem.stem = pooling_stem();
  stem.patch = 2;
  models::VitOptions& one = form("one layer, sin-cos beside registers");
  one.layers = 1;
  one.positions = models::VitPositions::sincos;
  one.registers = 1;
  return out;
}

inline models::ResNetOptions tiny_resnet() {
  return {.layers = {1, 1, 1, 1}, .classes = 10, .width = 4};
}

// Names and options.
inline std::vector<std::pair<std::string, models::ResNetOptions>> resnet_forms() {
  std::vector<std::pair<std::string, models::ResNetOptions>> out = {{"basic", tiny_resnet()}};
  auto form = [&](const char* name) -> models::ResNetOptions& {
    out.emplace_back(name, tiny_resnet());
    return out.back().second;
  };
  form("bottleneck").block = models::ResNetBlockKind::bottleneck;
  models::ResNetOptions& groups = form("groups");
  groups.block = models::ResNetBlockKind::bottleneck;
  groups.groups = 4;
  groups.width_per_group = 32;
  form("small pictures").small_pictures = true;
  form("features").classes = 0;
  models::ResNetOptions& gray = form("one colour, two blocks, zeros");
  gray.channels = 1;
  gray.layers = {2, 1, 1, 2};
  gray.zero_init_residual = true;
  form("recomputed").recompute = nn::Recompute::full;
  return out;
}

// ---- Sequences ---------------------------------------------------------------------------------

inline models::NtmOptions tiny_ntm() {
  return {.inputs = 3, .outputs = 2, .locations = 7, .width = 4, .hidden = 5};
}

inline std::vector<models::NtmOptions> ntm_forms() {
  using models::NtmController, models::NtmStart;
  std::vector<models::NtmOptions> out(9, tiny_ntm());
  out[1].controller = NtmController::feed_forward;
  out[2].layers = 3;
  out[3].controller = NtmController::feed_forward;
  out[3].layers = 2;
  out[3].start = NtmStart::random;
  out[4].read_heads = 2;
  out[4].write_heads = 3;
  out[4].shift = 2;
  out[5].start = NtmStart::learned;
  out[5].layers = 2;
  out[6].addressing = {.content = false};
  out[7].addressing = {.interpolation = false, .sharpening = false};
  out[8].addressing = {.shift = false};
  out[8].start = NtmStart::random;
  return out;
}

/// Post-norm and pre-norm, each plain and with grouped heads and GELU (post-norm: no final norm).
inline std::vector<models::TransformerOptions> transformer_forms() {
  std::vector<models::TransformerOptions> out;
  for (bool norm_first : {false, true})
    for (bool other : {false, true}) {
      models::TransformerOptions o{.source_vocab = 9, .target_vocab = 7};
      o.encoder_layers = 2;
      o.decoder_layers = other ? 1 : 2;
      o.layer = {.dim = 16, .heads = 4, .ffn = 24, .kv_heads = other ? 2 : 0, .dropout = 0};
      o.layer.norm_first = norm_first;
      if (other) o.layer.activation = Activation::gelu;
      o.final_norm = norm_first || !other;
      out.push_back(o);
    }
  return out;
}

inline models::BertOptions tiny_bert() {
  return {.vocab = 17,
          .dim = 12,
          .layers = 2,
          .heads = 3,
          .ffn = 20,
          .positions = 9,
          .dropout = 0,
          .attention_dropout = 0};
}

/// Forms with both heads, one of them, a classifier, other sizes, and parts of other encoders.
inline std::vector<models::BertOptions> bert_forms() {
  std::vector<models::BertOptions> out(10, tiny_bert());
  out[1].next_sentence = false;
  out[2].masked_lm = false;
  out[3].masked_lm = out[3].next_sentence = false;
  out[3].classes = 5;
  out[4].classes = 1;
  out[4].activation = Activation::gelu_tanh;
  out[5].layers = 1;
  out[5].heads = 1;
  out[5].pad = -1;
  out[5].segments = 3;
  out[6].position_offset = 2;
  out[6].embedding_dim = 8;
  out[6].pooler_activation = Activation::gelu;
  out[7].relative_buckets = 8;
  out[8].segments = 0;
  out[9].masked_lm = out[9].next_sentence = false;
  out[9].classes = 4;
  out[9].classes_of_tokens = true;
  return out;
}

}  // namespace tern::test
