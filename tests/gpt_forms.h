// Small GPTs of every form (GPT-2, Llama, and each with one part changed), for tests.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tern/core/ops/ops.h"
#include "tern/core/tape/autograd.h"
#include "tern/models/gpt.h"

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
  }
  return out;
}

/// A model in f64 and evaluation mode with larger weights, so that outputs depend clearly on
/// inputs.
inline models::Gpt sharp(const models::GptOptions& options, uint64_t seed = 1) {
  Rng rng(seed);
  models::Gpt model(options, rng);
  nn::to(model, DType::f64);
  nn::set_training(model, false);
  NoGradGuard guard;
  for (const auto& [name, p] : nn::named_parameters(model))
    if (p.ndim() > 1)
      for (int64_t i = 0; i < p.numel(); ++i) p.mutable_data<double>()[i] *= 15;
  return model;
}

inline Tensor some_tokens(int64_t texts, int64_t count, uint64_t seed = 3) {
  Rng rng(seed);
  return randint(0, kWords, {texts, count}, rng);
}

}  // namespace tern::test
