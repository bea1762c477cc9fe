// The Transformer: layers, stacks and the model; names, masks, attention, tied weights, errors.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tern/core/base/rng.h"
#include "tern/models/transformer.h"
#include "tern/tests/models/forms.h"
#include "tern/tests/support/model_checks.h"

namespace tern::test_transformer {
namespace {

using models::Transformer, models::TransformerOptions, models::TransformerState;
using nn::Mask;
using test::close, test::same, test::transformer_forms;

constexpr int64_t kSourceWords = 9, kTargetWords = 7;

struct Batch {
  Tensor source, lengths, target;
};

Batch make_batch(Rng& rng) {
  return {randint(0, kSourceWords, {3, 6}, rng), tensor<int64_t>({6, 2, 4}, {3}),
          randint(0, kTargetWords, {3, 5}, rng)};
}

/// Moves all weights away from 0 and 1, where errors would not show.
template <class M>
void randomise(M& m, Rng& rng) {
  NoGradGuard no_grad;
  for (const Tensor& p : nn::parameters(m)) add_(p, randn(p.shape(), rng, p.dtype()), 0.3);
}

Transformer make_model(const TransformerOptions& options, Rng& rng) {
  Transformer model(options, rng);
  randomise(model, rng);
  return model;
}

}  // namespace

TEST_CASE("transformer: names and shapes match torch.nn's") {
  for (const TransformerOptions& options : transformer_forms()) {
    Rng rng(1);
    Transformer model = make_model(options, rng);
    Batch b = make_batch(rng);
    test::check_leaves(sum(square(model.attend(b.source, b.lengths, b.target).logits)), model);
    NamedTensors parameters = nn::named_parameters(model);
    auto shape = [&](const std::string& name) {
      for (const auto& [n, t] : parameters)
        if (n == name) return t.shape();
      return Shape{-1};
    };
    const int64_t qkv = options.layer.kv_heads ? 32 : 48;
    CHECK(shape("src_embed.weight") == Shape{kSourceWords, 16});
    CHECK(shape("tgt_embed.weight") == Shape{kTargetWords, 16});
    CHECK(shape("transformer.encoder.layers.1.self_attn.in_proj_weight") == Shape{qkv, 16});
    CHECK(shape("transformer.decoder.layers.0.multihead_attn.out_proj.bias") == Shape{16});
    CHECK(shape("transformer.decoder.layers.0.linear2.weight") == Shape{16, 24});
    CHECK(shape("transformer.decoder.layers.0.norm3.bias") == Shape{16});
    CHECK(shape("transformer.encoder.norm.weight") == Shape{options.final_norm ? 16 : -1});
    CHECK(shape("generator.weight") == Shape{kTargetWords, 16});
    CHECK(shape("generator.bias") == Shape{kTargetWords});
  }
}

TEST_CASE("transformer: attention of every layer and head; rows sum to 1 over visible tokens") {
  for (const TransformerOptions& options : transformer_forms()) {
    Rng rng(5);
    Transformer model = make_model(options, rng);
    Batch b = make_batch(rng);
    for (bool recorded : {false, true}) {
      std::optional<NoGradGuard> guard;
      if (!recorded) guard.emplace();
      Transformer::Output out = model.attend(b.source, b.lengths, b.target);
      CHECK(close(out.logits, model(b.source, b.lengths, b.target)));
      auto check_weights = [](const std::vector<Tensor>& all, int64_t layers, const Mask& mask,
                              const Shape& shape) {
        CHECK(static_cast<int64_t>(all.size()) == layers);
        for (const Tensor& w : all) {
          CHECK(w.shape() == shape);
          CHECK(close(sum(w, 3), ones({shape[0], shape[1], shape[2]}), 1e-6, 1e-6));
          CHECK(max(where(mask.dense(shape), 0, w)).item() == 0);
          CHECK(min(w).item() >= 0);
        }
      };
      const Mask lengths = Mask::lengths(b.lengths);
      check_weights(out.attention.encoder, options.encoder_layers, lengths, {3, 4, 6, 6});
      check_weights(out.attention.decoder, options.decoder_layers, Mask::causal(), {3, 4, 5, 5});
      check_weights(out.attention.cross, options.decoder_layers, lengths, {3, 4, 5, 6});
    }
  }
}

TEST_CASE("transformer: a source without tokens gives finite logits and gradients") {
  for (const TransformerOptions& options : transformer_forms()) {
    Rng rng(6);
    Transformer model = make_model(options, rng);
    Batch b = make_batch(rng);
    Tensor logits = model(b.source, tensor<int64_t>({6, 0, 4}, {3}), b.target);
    sum(square(logits)).backward();
    CHECK(all(isfinite(logits)).item() == 1);
    for (const Tensor& p : nn::parameters(model)) CHECK(all(isfinite(p.grad())).item() == 1);
    Tensor none = model(zeros({3, 0}, DType::i64), {}, b.target);
    CHECK(close(none[1], logits[1].detach()));
  }
}

TEST_CASE("transformer: tied weights are counted once") {
  TransformerOptions options = transformer_forms()[0];
  options.target_vocab = options.source_vocab;
  Rng rng(7);
  const int64_t all = nn::num_parameters(Transformer(options, rng));
  for (bool tables : {false, true})
    for (bool generator : {false, true}) {
      options.tie_source_target = tables;
      options.tie_target_generator = generator;
      CHECK(nn::num_parameters(Transformer(options, rng)) ==
            all - (tables + generator) * kSourceWords * 16);
    }
}

TEST_CASE("transformer: with dropout of layers and embeddings evaluation is that without") {
  Rng rng(8);
  TransformerOptions options = transformer_forms()[0];
  const Transformer without = make_model(options, rng);
  const Batch b = make_batch(rng);
  options.layer.dropout = options.embed_dropout.emplace(0.5);
  Transformer model(options, rng);
  nn::load_state_dict(model, nn::state_dict(without));
  nn::set_training(model, false);
  CHECK(same(model(b.source, b.lengths, b.target), without(b.source, b.lengths, b.target)));
}

TEST_CASE("transformer: numbers of weights by formula; configurations by name") {
  auto formula = [](int64_t layers, int64_t d, int64_t ffn, int64_t source, int64_t target) {
    const int64_t attention = 4 * (d * d + d), network = 2 * d * ffn + ffn + d, norm = 2 * d;
    return layers * (attention + network + 2 * norm) + norm +      // encoder
           layers * (2 * attention + network + 3 * norm) + norm +  // decoder
           (source + target) * d + (d + 1) * target;               // tables and generator
  };
  CHECK(formula(6, 512, 2048, 3, 2) == 44140544 + 5 * 512 + 513 * 2);  // 44,140,544 in torch.nn
  auto weights = [](const std::string& name, int64_t layers, int64_t source, int64_t target) {
    TransformerOptions options = models::transformer_options(name);
    CHECK(options.encoder_layers == layers);
    CHECK(options.decoder_layers == layers);
    if (layers > 3) options.encoder_layers = options.decoder_layers = 1;  // faster
    options.source_vocab = source;
    options.target_vocab = target;
    Rng rng(10);
    return nn::num_parameters(Transformer(options, rng));
  };
  CHECK(weights("base", 6, 3, 2) == formula(1, 512, 2048, 3, 2));
  CHECK(weights("multi30k", 3, 100, 50) == formula(3, 256, 512, 100, 50));
  CHECK(weights("d2l", 2, 30, 20) == formula(2, 256, 64, 30, 20) - 4 * 256);  // no final norms
  CHECK(models::transformer_names() == std::vector<std::string>{"base", "multi30k", "d2l"});
  CHECK_THROWS_WITH_AS(models::transformer_options("bass"),
                       doctest::Contains("'bass'; there are base, multi30k, d2l"), Error);
}

TEST_CASE("transformer layers: gradients; asking for weights changes nothing") {
  for (bool norm_first : {false, true}) {
    Rng rng(11);
    nn::TransformerLayerOptions options{.dim = 4, .heads = 2, .ffn = 3, .dropout = 0};
    options.norm_first = norm_first;
    options.activation = Activation::gelu;
    nn::TransformerEncoderLayer encoder(options, rng);
    nn::TransformerDecoderLayer decoder(options, rng);
    nn::to(encoder, DType::f64);
    nn::to(decoder, DType::f64);
    randomise(encoder, rng);
    randomise(decoder, rng);
    std::vector<Tensor> in = {randn({2, 3, 4}, rng, DType::f64), randn({2, 2, 4}, rng, DType::f64)};
    for (const Tensor& t : in) t.set_requires_grad();
    for (const Tensor& p : nn::parameters(encoder)) in.push_back(p);
    for (const Tensor& p : nn::parameters(decoder)) in.push_back(p);
    const Mask mask = Mask::lengths({3, 1});
    auto run = [&](const std::vector<Tensor>& x) {
      return decoder(x[1], encoder(x[0], mask), Mask::causal(), mask);
    };
    CHECK_NOTHROW(gradcheck(run, in));
    Tensor weights;
    nn::TransformerDecoderLayer::Weights both;
    Tensor memory = encoder(in[0], mask, &weights);
    Tensor y = decoder(in[1], memory, Mask::causal(), mask, &both);
    CHECK(close(y, run(in), 1e-12, 1e-12));
    CHECK(weights.shape() == Shape{2, 2, 3, 3});
    CHECK(both.self.shape() == Shape{2, 2, 2, 2});
    CHECK(both.memory.shape() == Shape{2, 2, 2, 3});
  }
}

// The composed definition without a mask, post-norm: norm(x + f(x)) three times.
Tensor unmasked(const nn::TransformerDecoderLayer& m, Tensor x, const Tensor& memory) {
  x = m.residual1.norm(x + m.self_attn(x, x, x));
  x = m.residual2.norm(x + m.multihead_attn(x, memory, memory));
  return m.residual3.norm(x + m.ffn.linear2(relu(m.ffn.linear1(x))));
}

TEST_CASE("transformer decoder: sees later targets unless a mask forbids it, as in PyTorch") {
  Rng rng(14);
  const nn::TransformerLayerOptions options{.dim = 8, .heads = 2, .ffn = 12, .dropout = 0};
  const nn::TransformerDecoder decoder(2, options, rng);
  const nn::TransformerDecoderLayer& layer = decoder.layers[0];
  const Tensor x = randn({2, 5, 8}, rng), memory = randn({2, 3, 8}, rng);
  CHECK(close(layer(x, memory), unmasked(layer, x, memory), 1e-5, 1e-5));
  const Tensor through = unmasked(decoder.layers[1], unmasked(layer, x, memory), memory);
  CHECK(close(decoder(x, memory), (*decoder.norm)(through), 1e-5, 1e-5));
  // Another last token changes the first result, but not under a causal mask.
  Tensor other = x.clone();
  select(other, 1, 4) = 9;
  auto first = [](const Tensor& y) { return select(y, 1, 0).to_vector<float>(); };
  CHECK(first(layer(other, memory)) != first(layer(x, memory)));
  CHECK(first(decoder(other, memory)) != first(decoder(x, memory)));
  CHECK(first(layer(other, memory, Mask::causal())) == first(layer(x, memory, Mask::causal())));
  CHECK(first(decoder(other, memory, Mask::causal())) == first(decoder(x, memory, Mask::causal())));
}

TEST_CASE("transformer: errors name the rule, the values and a way out") {
  Rng rng(12);
  auto refuses = [](auto&& call, const char* text) {
    CHECK_THROWS_WITH_AS(static_cast<void>(call()), doctest::Contains(text), Error);
  };
  auto made_with = [&](auto&& change) {
    TransformerOptions options = transformer_forms()[0];
    change(options);
    Transformer(options, rng);
  };
  refuses([&] { made_with([](auto& o) { o.source_vocab = 0; }); }, "set source_vocab");
  refuses([&] { made_with([](auto& o) { o.target_vocab = -1; }); }, "got 9 and -1 words");
  refuses([&] { made_with([](auto& o) { o.layer.heads = 3; }); }, "16 channels cannot be split");
  refuses([&] { made_with([](auto& o) { o.encoder_layers = -1; }); },
          "layers must not be negative");
  refuses([&] { made_with([](auto& o) { o.layer.dropout = 1; }); }, "[0, 1)");
  refuses([&] { made_with([](auto& o) { o.layer.ffn = 0; }); }, "got 16 and 0");
  refuses([&] { made_with([](auto& o) { o.layer.dim = 0; }); }, "0 channels");
  refuses([&] { made_with([](auto& o) { o.tie_source_target = true; }); },
          "tie_source_target needs equal vocabularies, got 9 and 7 words");
  Transformer model(transformer_forms()[0], rng);
  Batch b = make_batch(rng);
  refuses([&] { return model(b.source.to(DType::f32), {}, b.target); },
          "the source is i64 (B, tokens)");
  refuses([&] { return model(b.source, {}, select(b.target, 0, 0)); },
          "the target is i64 (B, tokens)");
  refuses([&] { return model(b.source, {}, narrow(b.target, 0, 0, 2)); },
          "Transformer: got 3 source sentences, but 2 target sentences");
  refuses([&] { return model(b.target, {}, b.source + 1); }, "embedding");
  for (const Tensor& bad :
       {tensor<int64_t>({6, 2}, {2}), tensor({6, 2, 4}, {3}), full({3, 6}, 6, DType::i64)}) {
    refuses([&] { return model(b.source, bad, b.target); },
            "Transformer: lengths are i64 (3,), got ");
    refuses([&] { model.encode(b.source, bad); }, "Transformer: lengths are i64 (3,), got ");
  }
  refuses(
      [&] {
        return model(b.source, tensor<int64_t>({6, 7, 4}, {3}), b.target);
      },
      "a length is 7");
  TransformerState state = model.encode(b.source, b.lengths);
  refuses([&] { model.step(state, b.target); }, "one token per sentence, i64 (B)");
  refuses([&] { model.step(state, zeros({3})); }, "i64 (B), got f32");
  refuses([&] { model.step(state, zeros({2}, DType::i64)); },
          "has 3 sentences, but there are 2 tokens");
  TransformerOptions shallow = transformer_forms()[0];
  shallow.decoder_layers = 1;
  refuses([&] { Transformer(shallow, rng).step(state, zeros({3}, DType::i64)); },
          "the state has 2 layers, but the decoder has 1");
}

}  // namespace tern::test_transformer
