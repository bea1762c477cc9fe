// GPT-2 and Llama: numbers of weights, attention, logits and files of transformers
// (tests/reference), errors.
#include <doctest/doctest.h>

#include <filesystem>

#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/tape/autograd.h"
#include "tern/decode/sampling.h"
#include "tern/models/gpt.h"
#include "tern/tests/gpt_forms.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/tensors.h"
#include "tern/tests/support/torch_archive.h"

namespace tern::test_gpt {
using models::Gpt, models::GptOptions;
using test::close, test::same, test::sharp, test::small, test::small_llama, test::some_tokens,
    test::kContext, test::kWords;
using Tokens = std::vector<int64_t>;

namespace {

std::string reference(const std::string& name) {
  return std::string(TERN_SOURCE_DIR) + "/tests/reference/gpt/" + name;
}

GptOptions reference_options(const std::string& name) {
  GptOptions o{.vocab = 61, .context = 32, .dim = 24, .layers = 3, .heads = 3};
  if (name == "gpt2") return o;
  o = models::llama_form(o);
  o.ffn_dim = 36;
  o.tie_head = name == "llama_tied";
  if (o.tie_head) o.rope_base = 500;
  if (!o.tie_head) o.heads = 6, o.kv_heads = 2;
  return o;
}

Gpt loaded(const std::string& name, const std::string& file = "model.safetensors") {
  Rng rng(0);
  Gpt model(reference_options(name), rng);
  models::load_gpt_weights(reference(name) + "/" + file, model);
  nn::set_training(model, false);
  return model;
}

/// A file of the model's weights, rewritten by `change`.
template <class Change>
std::string rewritten(const std::string& name, Change change) {
  SafeTensors file = load_safetensors(reference(name) + "/model.safetensors");
  change(file.tensors);
  const std::string path =
      (std::filesystem::temp_directory_path() / ("test_gpt_" + name + ".safetensors")).string();
  save_safetensors(path, file);
  return path;
}

}  // namespace

TEST_CASE("Gpt: numbers of weights") {
  CHECK(models::gpt_weights(models::gpt_options("gpt2")) == 124'439'808);
  CHECK(models::gpt_weights(models::gpt_options("gpt2-medium")) == 354'823'168);
  CHECK(models::gpt_weights(models::gpt_options("gpt2-large")) == 774'030'080);
  CHECK(models::gpt_weights(models::gpt_options("gpt2-xl")) == 1'557'611'200);
  CHECK(models::gpt_weights(models::gpt_options("smollm-135m")) == 134'515'008);
  CHECK(models::gpt_weights(models::gpt_options("tinyllama-1.1b")) == 1'100'048'384);
  CHECK(models::gpt_weights(models::gpt_options("llama-7b")) == 6'738'415'616);
  CHECK_THROWS_WITH_AS(models::gpt_options("gpt3"), doctest::Contains("smollm-135m"), Error);
  // As the publishers count them.
  CHECK(models::gpt_weights(models::gpt_options("smollm2-135m")) == 134'515'008);
  CHECK(models::gpt_weights(models::gpt_options("llama-3.2-1b")) == 1'235'814'400);
  CHECK(models::gpt_weights(models::gpt_options("qwen2.5-0.5b")) == 494'032'768);
  CHECK(models::gpt_weights(models::gpt_options("qwen3-0.6b")) == 596'049'920);
  CHECK(models::gpt_weights(models::gpt_options("mistral-7b")) == 7'241'732'096);
  CHECK(models::gpt_weights(models::gpt_options("pythia-160m")) == 162'322'944);
  CHECK(models::gpt_weights(models::gpt_options("gemma-3-270m")) == 268'098'176);
  CHECK(models::gpt_names().size() == 14);
  for (const std::string& name : models::gpt_names()) {
    CAPTURE(name);
    ShapeOnlyScope no_memory;
    Rng rng(0);
    const Gpt model(models::gpt_options(name), rng);
    CHECK(nn::num_parameters(model) == models::gpt_weights(model.options));
    CHECK(model(zeros({1, 3}, DType::i64)).shape() == Shape{1, 3, model.options.vocab});
  }
}

TEST_CASE("Gpt: attention is causal, its rows sum to 1, and logits stay the same") {
  for (const auto& options : {small(), small_llama()}) {
    const Gpt model = sharp(options);
    NoGradGuard guard;
    const Tensor tokens = some_tokens(2, 6);
    const Gpt::Output y = model.attend(tokens);
    CHECK(close(y.logits, model(tokens), 1e-10, 1e-10));
    REQUIRE(y.attention.size() == 2);
    for (const Tensor& w : y.attention) {
      CHECK(w.shape() == Shape{2, options.heads, 6, 6});
      CHECK(close(sum(w, -1), ones({2, options.heads, 6}, DType::f64), 1e-10, 0));
      CHECK(same(triu(w, 1), zeros(w.shape(), DType::f64)));
    }
  }
}

TEST_CASE("Gpt: transformers' logits and greedy continuations, token by token") {
  for (const std::string name : {"gpt2", "llama", "llama_tied"}) {
    INFO(name);
    const Gpt model = loaded(name);
    const SafeTensors answers = load_safetensors(reference(name) + "/answers.safetensors");
    const Tensor prompt = answers.find("prompt"), greedy = answers.find("greedy");
    NoGradGuard guard;
    CHECK(close(model(prompt), answers.find("logits"), 1e-4, 1e-4));
    const auto made = decoding::greedy(
        model, model.encode(narrow(prompt, 1, 0, 4)),
        {.begin = select(prompt, 1, 4).to_vector<int64_t>(), .max_length = greedy.size(1)});
    for (int64_t i = 0; i < prompt.size(0); ++i)
      CHECK(made[i].tokens == greedy[i].to_vector<int64_t>());
    CHECK(made[0].tokens != made[1].tokens);
  }
}

TEST_CASE("Gpt: files with and without prefix, with and without the tied head, old buffers") {
  const Tensor tokens = remainder(some_tokens(2, 9), 61);
  NoGradGuard guard;
  CHECK(same(loaded("gpt2", "old.safetensors")(tokens), loaded("gpt2")(tokens)));
  for (const std::string name : {"gpt2", "llama_tied"}) {
    const std::string table =
        name == "gpt2" ? "transformer.wte.weight" : "model.embed_tokens.weight";
    Rng rng(0);
    Gpt model(reference_options(name), rng);
    nn::set_training(model, false);
    models::load_gpt_weights(rewritten(name,
                                       [&](auto& tensors) {
                                         for (auto& [key, t] : tensors)
                                           if (key == table)
                                             tensors.emplace_back("lm_head.weight", t.clone());
                                       }),
                             model);
    CHECK(same(model(tokens), loaded(name)(tokens)));
    const std::string other = rewritten(name, [&](auto& tensors) {
      for (auto& [key, t] : tensors)
        if (key == table) tensors.emplace_back("lm_head.weight", t + 1);
    });
    CHECK_THROWS_WITH_AS(models::load_gpt_weights(other, model),
                         doctest::Contains(".tie_head = false"), IoError);
  }
  const test::TempDir dir;
  Rng any(0);
  Gpt of_torch(reference_options("gpt2"), any);
  nn::set_training(of_torch, false);
  models::load_gpt_weights(
      test::torch::save(dir / "pytorch_model.bin",
                        load_safetensors(reference("gpt2") + "/model.safetensors").tensors),
      of_torch);
  CHECK(same(of_torch(tokens), loaded("gpt2")(tokens)));
  const std::string cut = rewritten("llama", [](auto& tensors) {
    for (auto& [key, t] : tensors) key = key.starts_with("model.") ? key.substr(6) : key;
    tensors.emplace_back("layers.0.self_attn.rotary_emb.inv_freq", zeros({2}));
  });
  Rng rng(0);
  Gpt model(reference_options("llama"), rng);
  nn::set_training(model, false);
  models::load_gpt_weights(cut, model);
  CHECK(same(model(tokens), loaded("llama")(tokens)));
  const Tensor before = model(tokens);
  CHECK_THROWS_WITH_AS(models::load_gpt_weights(reference("gpt2") + "/model.safetensors", model),
                       doctest::Contains("missing"), IoError);
  CHECK(same(model(tokens), before));
}

TEST_CASE("Gpt: errors name the rule and the values") {
  Rng rng(1);
  auto make = [&](auto change) {
    GptOptions o = small();
    change(o);
    Gpt model(o, rng);
  };
  CHECK_THROWS_WITH_AS(make([](GptOptions& o) { o.heads = 5; }), doctest::Contains("5 heads"),
                       Error);
  CHECK_THROWS_WITH_AS(make([](GptOptions& o) { o.kv_heads = 2; }),
                       doctest::Contains("must divide"), Error);
  CHECK_THROWS_WITH_AS(make([](GptOptions& o) { o.vocab = 0; }), doctest::Contains("vocab 0"),
                       Error);
  CHECK_THROWS_WITH_AS(make([](GptOptions& o) { o.dropout = 1; }), doctest::Contains("[0, 1)"),
                       Error);
  CHECK_THROWS_WITH_AS(make([](GptOptions& o) {
                         o.positions = models::GptPositions::rotary;
                         o.dim = 9;
                       }),
                       doctest::Contains("even"), Error);
  const Gpt model(small(), rng);
  CHECK_THROWS_WITH_AS(model(some_tokens(1, kContext + 1)), doctest::Contains("context of 12"),
                       Error);
  const auto full = model.encode(some_tokens(1, kContext));
  CHECK(full.position == kContext);
  CHECK_THROWS_WITH_AS(model.step(full, tensor(Tokens{1}, {1})), doctest::Contains("context of 12"),
                       Error);
  CHECK_THROWS_WITH_AS(model.step(full, tensor(Tokens{1, 2}, {2})), doctest::Contains("one token"),
                       Error);
  CHECK_THROWS_AS(model(zeros({1, 3})), Error);
  CHECK(model(some_tokens(0, 4)).shape() == Shape{0, 4, kWords});
  CHECK(model(some_tokens(2, 0)).shape() == Shape{2, 0, kWords});
}

}  // namespace tern::test_gpt
