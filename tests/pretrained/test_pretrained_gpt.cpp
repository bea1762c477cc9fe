// Folders of published language models: what is read from which file, and errors that name the
// file.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/core/io/safetensors.h"
#include "tern/core/tape/autograd.h"
#include "tern/pretrained/pretrained_gpt.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/tensors.h"

namespace tern::test_pretrained_gpt {
using models::Gpt, models::GptOptions;
using nlohmann::json;
using test::contains, test::TempDir, test::write_file;
using Ids = std::vector<int64_t>;

namespace {

constexpr const char* kTurnEnd = "<|im_end|>";

/// A folder as transformers writes it. The tokenizer has the bytes and two added tokens.
struct Folder {
  TempDir dir;
  Gpt model;

  Folder() : model(make()) {
    datasets::ByteBpe bytes =
        datasets::ByteBpe::learn(std::vector<std::string>{"abc"},
                                 {.size = 258, .specials = {datasets::kEndOfText, kTurnEnd}});
    datasets::LanguageTokenizer(bytes).save(dir.path());
    put("config.json", *pretrained::write_gpt_config(model.options, 256));
    nn::save_weights(dir / "model.safetensors", model);
  }
  static Gpt make() {
    Rng rng(3);
    return Gpt(models::llama_form({.vocab = 260, .context = 16, .dim = 8, .layers = 1, .heads = 2}),
               rng);
  }
  std::string path() const { return dir.path(); }
  void put(const std::string& name, const std::string& text) { write_file(dir / name, text); }
};

Gpt loaded_from(const std::string& folder) {
  pretrained::Pretrained m = pretrained::load_pretrained(folder);
  return std::move(m.model);
}

std::string opening(const Folder& f) {
  return test::error_of([&] { pretrained::open_gpt(f.path()); });
}

}  // namespace

TEST_CASE("pretrained: a folder gives tokenizer, end tokens, chat template and weights") {
  Folder f;
  f.put("tokenizer_config.json", json{{"eos_token", {{"content", kTurnEnd}, {"special", true}}},
                                      {"bos_token", datasets::kEndOfText},
                                      {"chat_template", "{{ messages[0].content }}"}}
                                     .dump());
  pretrained::GptFiles files = pretrained::open_gpt(f.path());
  CHECK(files.config.family == "llama");
  CHECK(files.config.ends == Ids{256});
  CHECK(files.tokenizer.ends() == Ids{256});
  CHECK(files.chat.jinja == "{{ messages[0].content }}");
  CHECK(files.chat.begin == datasets::kEndOfText);
  CHECK(files.chat.end == kTurnEnd);
  CHECK(files.tokenizer.encode("ab<|im_end|>").size() == 3);

  // generation_config.json has the last word on end tokens; a file of its own on the template.
  f.put("generation_config.json", R"({"eos_token_id": [256, 257], "temperature": 0.2})");
  f.put("chat_template.jinja", "other");
  files = pretrained::open_gpt(f.path());
  CHECK(files.tokenizer.ends() == Ids{256, 257});
  CHECK(files.chat.jinja == "other");

  const Gpt loaded = loaded_from(f.path());
  NoGradGuard no_grad;
  nn::set_training(f.model, false);
  const Tensor tokens = tensor(Ids{1, 2, 3}, {1, 3});
  CHECK(test::same(loaded(tokens), f.model(tokens)));
}

TEST_CASE("pretrained: without eos_token_id the tokenizer's eos_token ends a text") {
  Folder f;
  f.put("config.json", *pretrained::write_gpt_config(f.model.options, std::nullopt));
  f.put("tokenizer_config.json", json{{"eos_token", kTurnEnd}}.dump());
  CHECK(pretrained::open_gpt(f.path()).tokenizer.ends() == Ids{257});
}

TEST_CASE("pretrained: special tokens of special_tokens_map.json, and those that a class has") {
  using Named = std::map<std::string, std::string>;
  Folder f;
  f.put("config.json", *pretrained::write_gpt_config(f.model.options, std::nullopt));
  f.put("tokenizer_config.json", R"({"pad_token": "P", "image_token": "I", "chat_template": "x"})");
  f.put("special_tokens_map.json",
        json{{"bos_token", {{"content", datasets::kEndOfText}}}, {"eos_token", kTurnEnd}}.dump());
  pretrained::GptFiles files = pretrained::open_gpt(f.path());
  CHECK(files.chat.begin == datasets::kEndOfText);
  CHECK(files.chat.end == kTurnEnd);
  CHECK(files.chat.further == Named{{"image_token", "I"}, {"pad_token", "P"}});
  CHECK(files.tokenizer.ends() == Ids{257});
  std::filesystem::remove(f.dir / "special_tokens_map.json");

  datasets::LanguageTokenizer(datasets::ByteBpe::learn(std::vector<std::string>{"abc"},
                                                       {.size = 258, .specials = {"<s>", "</s>"}}))
      .save(f.path());
  const auto opened = [&](const char* config) {
    f.put("tokenizer_config.json", config);
    files = pretrained::open_gpt(f.path());
    return files.chat.begin + files.chat.end;
  };
  CHECK(opened("{}") == "<s></s>");  // by the family
  CHECK(files.tokenizer.ends() == Ids{257});
  CHECK(files.chat.further == Named{});  // the vocabulary has no <unk>
  CHECK(opened(R"({"tokenizer_class": "LlamaTokenizerFast", "bos_token": null})") == "</s>");
  CHECK(opened(R"({"tokenizer_class": "PreTrainedTokenizerFast"})") == "");
}

TEST_CASE("pretrained: an end token that the model cannot write is left out") {
  Folder f;
  f.put("tokenizer_config.json", json{{"eos_token", kTurnEnd}}.dump());
  f.put("generation_config.json", R"({"eos_token_id": 50256})");  // GPT-2's, of a small vocabulary
  CHECK(pretrained::open_gpt(f.path()).tokenizer.ends() == Ids{257});
  f.put("generation_config.json", R"({"eos_token_id": [50256, 256]})");
  CHECK(pretrained::open_gpt(f.path()).tokenizer.ends() == Ids{256});
  CHECK(pretrained::open_gpt(f.path()).unknown_ends == Ids{50256});
}

TEST_CASE("pretrained: vocab.json and merges.txt do, also without tokens for some bytes") {
  Folder f;
  std::filesystem::remove(f.dir / "tokenizer.json");
  CHECK(pretrained::open_gpt(f.path()).tokenizer.encode("ab<|endoftext|>").back() == 256);
  json vocab = json::parse(test::read_file(f.dir / "vocab.json"));
  CHECK(vocab.erase("\u0104") == 1);  // the byte 04
  f.put("vocab.json", vocab.dump());
  const datasets::LanguageTokenizer t = pretrained::open_gpt(f.path()).tokenizer;
  CHECK(t.decode(t.encode("a\x04"
                          "b")) == "ab");  // as in transformers
}

TEST_CASE("pretrained: of several chat templates the default is taken, the others have names") {
  Folder f;
  json templates = {{{"name", "rag"}, {"template", "a"}}, {{"name", "default"}, {"template", "b"}}};
  f.put("tokenizer_config.json", json{{"chat_template", templates}}.dump());
  const pretrained::ChatTexts chat = pretrained::open_gpt(f.path()).chat;
  CHECK(chat.jinja == "b");
  CHECK(chat.others == std::vector<std::string>{"rag"});
}

TEST_CASE("pretrained: add_bos_token counts beside vocab.json, as in transformers") {
  Folder f;
  const json settings = {{"add_bos_token", true}, {"bos_token", kTurnEnd}};
  f.put("tokenizer_config.json", settings.dump());
  CHECK(pretrained::open_gpt(f.path()).tokenizer.encode_prompt("a") == Ids{64});
  std::filesystem::remove(f.dir / "tokenizer.json");
  CHECK(pretrained::open_gpt(f.path()).tokenizer.encode_prompt("a") == Ids{257, 64});
  CHECK(pretrained::open_gpt(f.path()).tokenizer.encode("a") == Ids{64});
  f.put("tokenizer_config.json", R"({"add_eos_token": true})");
  CHECK(contains(opening(f), "tokenizer_config.json: add_eos_token is true"));
}

TEST_CASE("pretrained: settings of generation_config.json that tern leaves to its user are named") {
  using Texts = std::vector<std::string>;
  CHECK(pretrained::generation_settings(
            R"({"do_sample": true, "temperature": 0.6, "top_k": 0, "top_p": 1.0,
                "repetition_penalty": 1.1, "suppress_tokens": [1, 2], "bad_words_ids": null,
                "begin_suppress_tokens": [], "eos_token_id": 2, "use_cache": true})") ==
        Texts{"repetition_penalty 1.1", "suppress_tokens [1,2]", "temperature 0.6"});
  CHECK(pretrained::generation_settings(R"({"temperature": 0.6, "num_beams": 1, "new_one": 3})") ==
        Texts{"new_one 3"});
  CHECK_THROWS_AS(pretrained::generation_settings("[]"), Error);
  Folder f;
  f.put("generation_config.json", R"({"no_repeat_ngram_size": 3})");
  CHECK(pretrained::open_gpt(f.path()).generation == Texts{"no_repeat_ngram_size 3"});
}

TEST_CASE("pretrained: errors name the file") {
  Folder f;
  f.put("generation_config.json", "[");
  CHECK(contains(opening(f), "generation_config.json: "));
  std::filesystem::remove(f.dir / "generation_config.json");
  f.put("tokenizer_config.json", R"({"bos_token": 7})");
  CHECK(contains(opening(f), "tokenizer_config.json: bos_token"));
  std::filesystem::remove(f.dir / "tokenizer_config.json");
  GptOptions small = f.model.options;
  small.vocab = 100;
  f.put("config.json", *pretrained::write_gpt_config(small, std::nullopt));
  CHECK(contains(opening(f), "the tokenizer has 258 tokens, but the model knows 100"));
  small.vocab = 258;  // without one for the padding, which no text has
  f.put("config.json", *pretrained::write_gpt_config(small, std::nullopt));
  f.put("tokenizer_config.json", R"({"pad_token": "[PAD]"})");
  CHECK(pretrained::open_gpt(f.path()).tokenizer.id("[PAD]") == 258);
  std::filesystem::remove(f.dir / "tokenizer_config.json");
  small.vocab = 260, small.dim = 16;
  f.put("config.json", *pretrained::write_gpt_config(small, std::nullopt));
  CHECK(contains(test::error_of([&] { pretrained::load_pretrained(f.path()); }),
                 "model.safetensors: "));
  for (const char* name : {"tokenizer.json", "vocab.json"}) std::filesystem::remove(f.dir / name);
  CHECK(contains(opening(f), "it has no tokenizer"));
  std::filesystem::remove(f.dir / "config.json");
  CHECK(contains(opening(f), "it has no config.json"));
  CHECK_FALSE(pretrained::is_gguf(f.path()));
  CHECK_FALSE(pretrained::is_gguf(f.dir / "model.safetensors"));
}

TEST_CASE("pretrained: models of today's families give transformers' logits from their folders") {
  namespace fs = std::filesystem;
  NoGradGuard no_grad;
  int families = 0;
  for (const auto& entry :
       fs::directory_iterator(std::string(TERN_SOURCE_DIR) + "/tests/reference/gpt")) {
    const std::string folder = entry.path().string();
    if (!fs::exists(folder + "/answers.safetensors")) continue;
    CAPTURE(folder);
    const pretrained::GptConfig config =
        pretrained::read_gpt_config(test::read_file(folder + "/config.json"));
    CHECK(config.unknown.empty());
    Rng rng(0);
    Gpt model(config.options, rng);
    pretrained::load_weights(pretrained::weights_path(folder), model);
    nn::set_training(model, false);
    const SafeTensors answers = load_safetensors(folder + "/answers.safetensors");
    CHECK(test::close(model(answers.find("prompt")), answers.find("logits"), 1e-4, 1e-4));
    // Tensors one at a time are the same weights.
    const TensorSource source = pretrained::open_weights(pretrained::weights_path(folder));
    NamedTensors parts;
    for (const auto& [name, shape] : source.tensors) {
      parts.emplace_back(name, source.load(name));
      CHECK(parts.back().second.shape() == shape);
    }
    Gpt in_parts(config.options, rng);
    models::load_gpt_state(std::move(parts), in_parts);
    nn::set_training(in_parts, false);
    CHECK(test::same(in_parts(answers.find("prompt")), model(answers.find("prompt"))));
    ++families;
  }
  CHECK(families >= 5);
}

}  // namespace tern::test_pretrained_gpt
