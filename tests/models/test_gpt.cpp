// GPT-2 and Llama: numbers of weights, causality, decoding with a cache, logits and files of
// transformers (tests/reference).
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "tern/core/base/rng.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/tape/autograd.h"
#include "tern/decode/sampling.h"
#include "tern/models/gpt.h"
#include "tern/nn/check_module.h"
#include "tern/tests/gpt_forms.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/model_checks.h"
#include "tern/tests/support/torch_archive.h"

namespace tern::test_gpt {
using models::Gpt, models::GptOptions;
using test::close, test::same, test::forms, test::sharp, test::small, test::small_llama,
    test::some_tokens, test::kContext, test::kWords;
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

TEST_CASE("Gpt: gpt_weights is right, and the loss reaches all weights, in every form") {
  for (const auto& form : forms()) {
    const GptOptions& options = form.second;
    INFO(form.first);
    Rng rng(1);
    Gpt model(options, rng);
    CHECK(nn::num_parameters(model) == models::gpt_weights(options));
    const Tensor tokens = some_tokens(2, 7);
    const Tensor y = model(tokens);
    CHECK(y.shape() == Shape{2, 7, kWords});
    test::check_leaves(sum(y), model);
    nn::to(model, DType::f64);
    CHECK(close(model(tokens), y.to(DType::f64), 1e-4, 1e-5));
  }
}

TEST_CASE("Gpt: check_module passes in every form") {
  for (const auto& form : forms()) {
    INFO(form.first);
    GptOptions options = form.second;
    options.dropout = 0.1;
    Rng rng(6);
    CHECK_NOTHROW(nn::check_module(Gpt(options, rng), {some_tokens(3, 5)}));
  }
}

TEST_CASE("Gpt: later tokens do not change earlier logits; texts do not change each other") {
  for (const auto& form : forms()) {
    const GptOptions& options = form.second;
    INFO(form.first);
    Rng rng(2);
    Gpt model(options, rng);
    nn::set_training(model, false);
    NoGradGuard guard;
    const Tensor tokens = some_tokens(3, kContext), other = some_tokens(3, kContext, 4);
    const Tensor whole = model(tokens);
    for (int64_t t : {1, 5, 11}) {
      const Tensor mixed = cat({narrow(tokens, 1, 0, t), narrow(other, 1, t, kContext - t)}, 1);
      CHECK(same(narrow(model(mixed), 1, 0, t), narrow(whole, 1, 0, t)));
    }
    const Tensor others = cat({narrow(other, 0, 0, 1), narrow(tokens, 0, 1, 1)});
    CHECK(same(model(others)[1], model(narrow(tokens, 0, 0, 2))[1]));
    CHECK(!same(whole[0], model(other)[0]));
  }
}

TEST_CASE("Gpt: steps with a cache equal the whole, from any prompt") {
  for (const auto& form : forms()) {
    const GptOptions& options = form.second;
    INFO(form.first);
    const Gpt model = sharp(options);
    NoGradGuard guard;
    const Tensor tokens = some_tokens(2, kContext);
    const Tensor whole = model(tokens);
    for (int64_t known : {0, 1, 7}) {
      models::GptState state = model.encode(narrow(tokens, 1, 0, known));
      CHECK(state.batch() == 2);
      for (int64_t t = known; t < kContext; ++t) {
        Gpt::Step next = model.step(state, select(tokens, 1, t));
        CHECK(close(next.logits, select(whole, 1, t), 1e-10, 1e-10));
        state = std::move(next.state);
      }
      CHECK(state.position == kContext);
    }
  }
}

TEST_CASE("Gpt: greedy and sampling stop at the end; a batch equals its texts alone") {
  for (const auto& options : {small(), small_llama()}) {
    const Gpt model = sharp(options, 5);
    const Tensor prompt = some_tokens(4, 3);
    const Tokens last = select(prompt, 1, 2).to_vector<int64_t>();
    const models::GptState state = model.encode(narrow(prompt, 1, 0, 2));
    const decoding::GreedyOptions greedy{.begin = last, .end = 7, .max_length = kContext - 2};
    const auto best = decoding::greedy(model, state, greedy);
    decoding::SampleOptions draw{.temperature = 0.7,
                                 .top_k = 9,
                                 .top_p = 0.9,
                                 .begin = last,
                                 .end = 7,
                                 .max_length = kContext - 2};
    Rng rng(3), again(3);
    const auto drawn = decoding::sample(model, state, draw, rng);
    CHECK(drawn[2].tokens == decoding::sample(model, state, draw, again)[2].tokens);
    bool differ = false;
    for (int64_t i = 0; i < 4; ++i) {
      const auto alone =
          decoding::greedy(model, model.encode(narrow(narrow(prompt, 0, i, 1), 1, 0, 2)),
                           {.begin = last[i], .end = 7, .max_length = kContext - 2});
      CHECK(alone[0].tokens == best[i].tokens);
      Tensor text = narrow(prompt, 0, i, 1);
      for (int64_t token : best[i].tokens) {  // without a cache
        const Tensor logits = model(text);
        CHECK(argmax(select(logits, 1, text.size(1) - 1), -1).item<int64_t>() == token);
        text = cat({text, tensor(Tokens{token}, {1, 1})}, 1);
      }
      CHECK((best[i].finished || std::ssize(best[i].tokens) == kContext - 2));
      differ = differ || best[i].tokens != best[0].tokens;
    }
    CHECK(differ);
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

TEST_CASE("Gpt: the same bits on any number of threads; dropout only in training") {
  GptOptions options = small();
  options.dropout = 0.3;
  const Tensor tokens = some_tokens(3, kContext);
  test::check_threads([&] {
    Rng rng(4);
    const Gpt model(options, rng);
    const Tensor y = model(tokens);
    sum(y * y).backward();
    return test::with_gradients(y, model);
  });
  Rng rng(4);
  Gpt model(options, rng);
  CHECK(!same(model(tokens), model(tokens)));
  nn::set_training(model, false);
  CHECK(same(model(tokens), model(tokens)));
  for (auto only : {&GptOptions::embed_dropout, &GptOptions::attention_dropout}) {
    options.dropout = 0;
    options.embed_dropout = options.attention_dropout = 0;
    options.*only = 0.5;
    Gpt one(options, rng);
    CHECK(!same(one(tokens), one(tokens)));
    nn::set_training(one, false);
    CHECK(same(one(tokens), one(tokens)));
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
  CHECK_THROWS_WITH_AS(model.step(full, tensor(Tokens{1}, {1})), doctest::Contains("context of 12"),
                       Error);
  CHECK_THROWS_WITH_AS(model.step(full, tensor(Tokens{1, 2}, {2})), doctest::Contains("one token"),
                       Error);
  CHECK_THROWS_AS(model(zeros({1, 3})), Error);
  CHECK(model(some_tokens(0, 4)).shape() == Shape{0, 4, kWords});
  CHECK(model(some_tokens(2, 0)).shape() == Shape{2, 0, kWords});
}

}  // namespace tern::test_gpt
