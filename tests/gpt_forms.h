// Small GPTs of every form (GPT-2, Llama, and each with one part changed), for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/gpt.h"
#include "tern/tests/support/option_pairs.h"

namespace tern::test {

constexpr int64_t kWords = 19, kContext = 12;

inline models::GptOptions small() {
  return {.vocab = kWords, .context = kContext, .dim = 12, .layers = 2, .heads = 3, .dropout = 0};
}

inline models::GptOptions small_llama() {
  models::GptOptions o = models::llama_form(small());
  o.heads = 6;
  o.kv_heads = 2;
  o.ffn_dim = 20;
  return o;
}

/// What families after GPT-2 and Llama brought.
inline Choices<models::GptOptions> later_options() {
  using models::GptOptions, models::RopeScaling;
  const nn::Bias yes = nn::Bias::yes, no = nn::Bias::no;
  auto flip = [=](nn::Bias b) { return b == yes ? no : yes; };
  auto rotary = [](GptOptions& o) { o.positions = models::GptPositions::rotary; };
  return {
      {{"head dim", [](GptOptions& o) { o.head_dim = 10; }}},
      {{"qkv bias", [=](GptOptions& o) { o.qkv_bias = flip(o.bias); }}},
      {{"out bias", [=](GptOptions& o) { o.out_bias = flip(o.bias); }}},
      {{"erf", [](GptOptions& o) { o.ffn = models::GptFfn::gelu_erf; }},
       {"geglu", [](GptOptions& o) { o.ffn = models::GptFfn::geglu; }}},
      {{"qk norm", [](GptOptions& o) { o.qk_norm = true; }}},
      {{"post norms", [](GptOptions& o) { o.post_norms = true; }}},
      {{"embed scale", [](GptOptions& o) { o.embed_scale = 1.7; }}},
      {{"parallel", [](GptOptions& o) { o.parallel = true; }}},
      {{"llama3",
        [=](GptOptions& o) {
          rotary(o);
          o.rope_base = 30;
          o.rope_scaling = {.kind = RopeScaling::Kind::llama3,
                            .factor = 3,
                            .high_freq_factor = 2,
                            .original_context = 5};
        }},
       {"linear",
        [=](GptOptions& o) {
          rotary(o);
          o.rope_scaling = {.kind = RopeScaling::Kind::linear, .factor = 2.5};
        }}},
      {{"rotary share", [=](GptOptions& o) { rotary(o), o.head_dim = 10, o.rotary_share = 0.45; }}},
      {{"rotary layers",
        [=](GptOptions& o) {
          rotary(o), o.rotary_layers = {false, true};
        }}},
      {{"window", [](GptOptions& o) { o.window = 4; }},
       {"window of a layer",
        [](GptOptions& o) {
          o.window = 3;
          o.window_layers = {false, true};
        }},
       {"window with a base",
        [=](GptOptions& o) {
          rotary(o);
          o.window = 5;
          o.window_layers = {true, false};
          o.window_rope_base = 7;
        }}},
  };
}

/// GPT-2 and Llama, and each of them with one part changed at a time.
inline std::vector<std::pair<std::string, models::GptOptions>> forms() {
  std::vector<std::pair<std::string, models::GptOptions>> out = {{"gpt2", small()},
                                                                 {"llama", small_llama()}};
  for (auto base : {small(), small_llama()}) {
    auto add = [&](const std::string& name, auto change) {
      models::GptOptions o = base;
      change(o);
      out.emplace_back((base.names == models::GptNames::gpt2 ? "gpt2 " : "llama ") + name, o);
    };
    using namespace models;
    const bool gpt2 = base.names == GptNames::gpt2;
    add("positions", [&](models::GptOptions& o) {
      o.positions = gpt2 ? GptPositions::rotary : GptPositions::learned;
      if (gpt2) o.dim = 24;
    });
    add("norm", [&](models::GptOptions& o) { o.norm = gpt2 ? GptNorm::rms : GptNorm::layer; });
    add("ffn", [&](models::GptOptions& o) { o.ffn = gpt2 ? GptFfn::swiglu : GptFfn::gelu; });
    add("bias", [&](models::GptOptions& o) { o.bias = gpt2 ? nn::Bias::no : nn::Bias::yes; });
    add("head", [&](models::GptOptions& o) { o.tie_head = !o.tie_head; });
    add("kv heads", [&](models::GptOptions& o) { o.kv_heads = gpt2 ? 1 : 0; });
    for (const auto& each : later_options())
      for (const Choice<models::GptOptions>& choice : each) add(choice.name, choice.apply);
  }
  return out;
}

/// A model in f64 and evaluation mode with larger matrices, and norms and biases other than 1 and
/// 0, so that outputs depend clearly on inputs and on every weight.
inline models::Gpt sharp(const models::GptOptions& options, uint64_t seed = 1) {
  Rng rng(seed);
  models::Gpt model(options, rng);
  nn::to(model, DType::f64);
  nn::set_training(model, false);
  NoGradGuard guard;
  for (const auto& [name, p] : nn::named_parameters(model))
    copy_(p, p.ndim() > 1 ? p * 15 : p + randn(p.shape(), rng, DType::f64) * 0.3);
  return model;
}

inline Tensor some_tokens(int64_t texts, int64_t count, uint64_t seed = 3) {
  Rng rng(seed);
  return randint(0, kWords, {texts, count}, rng);
}

}  // namespace tern::test
