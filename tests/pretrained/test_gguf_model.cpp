// Models and tokenizers in GGUF files against transformers, `tokenizers` and SentencePiece
// (tests/reference/make_gguf_models.py).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "tern/core/io/safetensors.h"
#include "tern/data/text/pretrained/pretrained_tokenizer.h"
#include "tern/pretrained/gguf_model.h"
#include "tern/pretrained/gguf_tokenizer.h"
#include "tern/pretrained/pretrained_gpt.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/gguf_bytes.h"
#include "tern/tests/support/same_bits.h"

namespace tern::test_gguf_model {
namespace {

using nlohmann::json;
using test::bytes_of;
using test::contains;
using test::GgufBytes;
using test::io_error;
using test::TempDir;
using test::write_file;

const std::string kReference = std::string(TERN_SOURCE_DIR) + "/tests/reference/gguf_models/";

json reference(const std::string& name) { return json::parse(test::read_file(kReference + name)); }

/// A Llama of one block without weights but the embedding.
GgufBytes llama() {
  GgufBytes file;
  file.add("general.architecture", GgufBytes::kText, GgufBytes::text("llama"));
  for (const char* key : {"context_length", "embedding_length", "block_count",
                          "feed_forward_length", "attention.head_count"})
    file.add(std::string("llama.") + key, GgufBytes::kU32, bytes_of<uint32_t>(8));
  file.add("llama.attention.layer_norm_rms_epsilon", GgufBytes::kF32, bytes_of(1e-5f));
  file.tensor("token_embd.weight", {8, 3}, 0, 0);
  file.data = std::string(8 * 3 * sizeof(float), '\0');
  return file;
}

/// A byte-level BPE of two letters.
GgufBytes letters(const std::string& pre) {
  GgufBytes file;
  file.add("tokenizer.ggml.model", GgufBytes::kText, GgufBytes::text("gpt2"));
  file.add("tokenizer.ggml.pre", GgufBytes::kText, GgufBytes::text(pre));
  file.add("tokenizer.ggml.tokens", GgufBytes::kList,
           GgufBytes::list(GgufBytes::kText, 2, GgufBytes::text("a") + GgufBytes::text("b")));
  file.add("tokenizer.ggml.merges", GgufBytes::kList, GgufBytes::list(GgufBytes::kText, 0, ""));
  return file;
}

/// What `use` says of a file with these bytes; "" if nothing.
template <class Use>
std::string said(const GgufBytes& bytes, Use use) {
  const TempDir dir;
  const std::string path = write_file(dir / "x.gguf", bytes.bytes());
  const GgufFile file(path);
  const std::string told = io_error([&] { use(file); });
  if (!told.empty()) CHECK(contains(told, path + ": "));
  return told;
}

std::string said_of_config(const GgufBytes& bytes) { return said(bytes, pretrained::gguf_config); }
std::string said_of_tokenizer(const GgufBytes& bytes) {
  return said(bytes, pretrained::gguf_tokenizer);
}

/// The tokenizer of a file, through tokenizer.json.
datasets::PretrainedTokenizer tokenizer_of(const GgufFile& file) {
  const TempDir dir;
  return datasets::PretrainedTokenizer::load(
      write_file(dir / "tokenizer.json", pretrained::gguf_tokenizer(file)));
}

}  // namespace

TEST_CASE("gguf model: weights have the names and values that transformers gave to the file") {
  const json configs = reference("configs.json");
  CHECK(configs.size() == 11);
  for (const auto& model : configs.items()) {
    const std::string& name = model.key();
    CAPTURE(name);
    const GgufFile file(kReference + name + ".gguf");
    const SafeTensors expected = load_safetensors(kReference + name + ".safetensors");
    const NamedTensors weights = pretrained::load_gguf_weights(file);
    CHECK(weights.size() == expected.tensors.size());
    const TensorSource source = pretrained::open_weights(kReference + name + ".gguf");
    CHECK(source.tensors.size() == weights.size());
    for (const auto& weight : weights) {
      CAPTURE(weight.first);
      const Tensor wanted = expected.find(weight.first);
      REQUIRE(wanted.defined());
      CHECK(test::same_bits(weight.second, wanted));
      const auto entry =
          std::ranges::find(source.tensors, weight.first, &std::pair<std::string, Shape>::first);
      REQUIRE(entry != source.tensors.end());
      CHECK(entry->second == wanted.shape());
      CHECK(test::same_bits(source.load(weight.first), wanted));
      if (wanted.ndim() < 2) continue;
      const int64_t rows = wanted.size(0);
      CHECK(test::same_bits(source.load_rows(weight.first, 1, rows),
                            narrow(wanted, 0, 1, rows - 1).contiguous()));
    }
  }
}

TEST_CASE("gguf model: config.json has the facts of transformers' configuration") {
  const json configs = reference("configs.json");
  for (const auto& model : configs.items()) {
    const std::string& name = model.key();
    CAPTURE(name);
    json config = json::parse(pretrained::gguf_config(GgufFile(kReference + name + ".gguf")));
    if (name != "gpt2") {  // transformers 5 has one object for all of rotary positions
      json rope = config.value("rope_scaling", json{{"rope_type", "default"}});
      rope["rope_theta"] = config["rope_theta"];
      config["rope_parameters"] = rope;
      if (config["model_type"] == "phi3") config["rope_parameters"]["partial_rotary_factor"] = 1.0;
      if (name == "phi3_long") {  // the same number as the default
        const double factor = config["rope_parameters"]["attention_factor"];
        CHECK(factor == doctest::Approx(std::sqrt(1 + std::log(2) / std::log(8))));
        config["rope_parameters"].erase("attention_factor");
      }
      if (name == "gemma3")
        config["rope_parameters"] = {
            {"full_attention", rope},
            {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 1e4}}}};
    }
    for (const auto& fact : model.value().items()) {
      CAPTURE(fact.key());
      CHECK(config[fact.key()] == fact.value());
    }
  }
}

TEST_CASE("gguf model: what is not known is refused by name") {
  CHECK(said_of_config(llama()) == "");
  GgufBytes other;
  other.add("general.architecture", GgufBytes::kText, GgufBytes::text("mamba"));
  CHECK(contains(said_of_config(other), "general.architecture is mamba; gemma3, gpt2, llama,"));
  CHECK(contains(said_of_config(llama().add("llama.logit_scale", GgufBytes::kF32, bytes_of(2.f))),
                 "it has llama.logit_scale, which tern does not know"));
  CHECK(contains(
      said_of_config(llama().add("llama.expert_count", GgufBytes::kU32, bytes_of<uint32_t>(8))),
      "it is a mixture of experts"));
  CHECK(contains(said_of_config(llama().add("llama.attention.value_length", GgufBytes::kU32,
                                            bytes_of<uint32_t>(4))),
                 "llama.attention.value_length differs from the length of keys"));
  GgufBytes table = llama();
  table.tensor("rope_freqs.weight", {1}, 0, 96);
  table.data += bytes_of(3.f);
  CHECK(contains(said_of_config(table), "rope_freqs.weight is not the table of a Llama 3"));
  table.add("llama.rope.dimension_count", GgufBytes::kU64, bytes_of(uint64_t{1} << 62));
  CHECK(contains(said_of_config(table), "rope_freqs.weight is not the table of a Llama 3"));
  CHECK(contains(said_of_config(llama().add("llama.rope.scaling.type", GgufBytes::kText,
                                            GgufBytes::text("\xff"))),
                 "llama.rope.scaling.type is \xff"));
  GgufBytes no_heads = llama();
  no_heads.entries.erase(no_heads.entries.begin() + 5);
  no_heads.add("llama.attention.head_count", GgufBytes::kU32, bytes_of<uint32_t>(0));
  CHECK(contains(said_of_config(no_heads), "llama.attention.head_count is 0"));
  for (const char* name : {"blk.0.ffn_gate_exps.weight", "blk.0.attn_q.scale", "blk.0", "x", "",
                           "blk..attn_q.weight", "position_embd.weight"}) {
    CAPTURE(name);
    CHECK(contains(said(llama(), [&](const GgufFile& f) { pretrained::gguf_weight_name(f, name); }),
                   "it has the tensor '" + std::string(name) + "', which tern does not know"));
  }
  GgufBytes odd = llama();
  odd.tensor("blk.0.attn_q.weight", {1, 12}, 0, 0);
  CHECK(contains(said(odd, [](const GgufFile& f) { pretrained::load_gguf_weights(f); }),
                 "12 rows are not 8 heads"));
  odd.entries.erase(odd.entries.begin() + 5);
  odd.add("llama.attention.head_count", GgufBytes::kU64, bytes_of(uint64_t{1} << 62));
  CHECK(contains(said(odd, [](const GgufFile& f) { pretrained::load_gguf_weights(f); }),
                 "12 rows are not 4611686018427387904 heads"));
}

TEST_CASE("gguf model: end tokens, scaling and partial rotary positions") {
  const auto config = [](GgufBytes bytes) {
    const TempDir dir;
    return json::parse(
        pretrained::gguf_config(GgufFile(write_file(dir / "x.gguf", bytes.bytes()))));
  };
  const auto u32 = [](uint32_t x) { return bytes_of(x); };
  json j = config(llama()
                      .add("tokenizer.ggml.eos_token_id", GgufBytes::kU32, u32(7))
                      .add("tokenizer.ggml.eot_token_id", GgufBytes::kU32, u32(9))
                      .add("tokenizer.ggml.eom_token_id", GgufBytes::kU32, u32(7)));
  CHECK(j["eos_token_id"] == json{7, 9});
  CHECK_FALSE(j.contains("bos_token_id"));
  std::string texts;
  for (const char* token : {"a", "<|endoftext|>", "<|end|>", "<end_of_turn>", "<|user|>"})
    texts += GgufBytes::text(token);
  CHECK(config(llama()
                   .add("tokenizer.ggml.tokens", GgufBytes::kList,
                        GgufBytes::list(GgufBytes::kText, 5, texts))
                   .add("tokenizer.ggml.eos_token_id", GgufBytes::kU32, u32(3)))["eos_token_id"] ==
        json{3, 1, 2});
  CHECK(j["rope_theta"] == 1e4);
  CHECK(j["num_key_value_heads"] == 8);
  j = config(llama()
                 .add("llama.rope.scaling.type", GgufBytes::kText, GgufBytes::text("yarn"))
                 .add("llama.rope.scaling.factor", GgufBytes::kF32, bytes_of(4.f))
                 .add("llama.rope.scaling.original_context_length", GgufBytes::kU32, u32(2)));
  CHECK(j["rope_scaling"] ==
        json{{"rope_type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 2}});
  const auto scaled = [&](const char* type, float factor) {
    return llama()
        .add("llama.rope.scaling.type", GgufBytes::kText, GgufBytes::text(type))
        .add("llama.rope.scaling.factor", GgufBytes::kF32, bytes_of(4.f))
        .add("llama.rope.scaling.attn_factor", GgufBytes::kF32, bytes_of(factor));
  };
  CHECK(config(scaled("yarn", 2))["rope_scaling"]["attention_factor"].get<double>() ==
        doctest::Approx(2 * (1 + std::log(4.0) / 10)));
  CHECK_FALSE(config(scaled("linear", 1))["rope_scaling"].contains("attention_factor"));
  CHECK(contains(
      said_of_config(scaled("linear", 1.25f)),
      "llama.rope.scaling.attn_factor is 1.25; tern has this factor for yarn and longrope alone"));
  j = config(llama()
                 .add("llama.attention.key_length", GgufBytes::kU32, u32(16))
                 .add("llama.attention.value_length", GgufBytes::kU32, u32(16))
                 .add("llama.rope.dimension_count", GgufBytes::kU32, u32(4)));
  CHECK(j["head_dim"] == 16);
  CHECK(j["partial_rotary_factor"] == 0.25);
}

TEST_CASE("gguf model: tokenizers give the ids of the original ones") {
  const json cases = reference("tokenizers.json");
  CHECK(cases.size() == 7);
  for (const auto& kind : cases.items()) {
    const std::string& name = kind.key();
    CAPTURE(name);
    const GgufFile file(kReference + "tokenizer_" + name + ".gguf");
    const auto tokenizer = tokenizer_of(file);
    // The tokenizers package reads a ByteLevel only with all its members.
    const json decoder = json::parse(pretrained::gguf_tokenizer(file)).at("decoder");
    CHECK((decoder.at("type") != "ByteLevel" || decoder.contains("trim_offsets")));
    for (const json& row : kind.value()) {
      CAPTURE(row);
      CHECK(tokenizer.encode(row[0].get<std::string>()) == row[1].get<std::vector<int64_t>>());
    }
  }
  const GgufFile bpe(kReference + "tokenizer_smollm.gguf");
  CHECK(tokenizer_of(bpe).decode(tokenizer_of(bpe).encode("größer <s>")) == "größer ");
  const pretrained::ChatTexts chat = pretrained::gguf_chat(bpe);
  CHECK(chat.jinja == "{{ messages }}");
  CHECK(chat.begin == "<s>");
  CHECK(chat.end == "</s>");
  const GgufFile pieces(kReference + "tokenizer_spm.gguf");
  const auto spm = tokenizer_of(pieces);
  CHECK(spm.decode(spm.encode("  two größer 日本")) == "  two größer 日本");
  CHECK(pretrained::gguf_chat(pieces).jinja == "");
}

TEST_CASE("gguf model: white space behind added tokens is left out if the name says Phi-3") {
  const std::vector<std::string> tokens = {"<unk>",  "<s>",    "</s>", "<|user|>", "<|end|>",
                                           "<0x0A>", "\u2581", "a",    "\u2581a",  "<|endoftext|>"};
  std::string texts, types, scores;
  for (const std::string& token : tokens) texts += GgufBytes::text(token), scores += bytes_of(0.f);
  for (const uint32_t type : {2, 3, 3, 3, 4, 6, 1, 1, 1, 3}) types += bytes_of(type);
  const auto ids = [&](const std::string& name) {
    GgufBytes file;
    file.add("tokenizer.ggml.model", GgufBytes::kText, GgufBytes::text("llama"))
        .add("tokenizer.ggml.tokens", GgufBytes::kList,
             GgufBytes::list(GgufBytes::kText, tokens.size(), texts))
        .add("tokenizer.ggml.token_type", GgufBytes::kList,
             GgufBytes::list(GgufBytes::kU32, tokens.size(), types))
        .add("tokenizer.ggml.scores", GgufBytes::kList,
             GgufBytes::list(GgufBytes::kF32, tokens.size(), scores))
        .add("tokenizer.ggml.unknown_token_id", GgufBytes::kU32, bytes_of<uint32_t>(0));
    if (!name.empty()) file.add("general.name", GgufBytes::kText, GgufBytes::text(name));
    const TempDir dir;
    return tokenizer_of(GgufFile(write_file(dir / "x.gguf", file.bytes())))
        .encode("<|user|>\na<|end|> a</s> a<s> a<unk> a<|endoftext|> a");
  };
  using Ids = std::vector<int64_t>;
  // As llama-vocab.cpp says: it counts only behind <s>, <unk> and <|endoftext|>.
  const Ids left_out = {3, 8, 4, 8, 2, 8, 1, 6, 8, 0, 6, 8, 9, 6, 8};
  for (const char* name : {"Phi-3-mini-4k-instruct", "my PHI3"}) CHECK(ids(name) == left_out);
  const Ids kept = {3, 6, 5, 7, 4, 6, 8, 2, 6, 8, 1, 6, 8, 0, 6, 8, 9, 6, 8};
  for (const char* name : {"", "Phi 3", "phi-4"}) CHECK(ids(name) == kept);
}

TEST_CASE("gguf model: tokenizers that are not known or contradict themselves are refused") {
  CHECK(said_of_tokenizer(letters("gpt-2")) == "");
  CHECK(contains(said_of_tokenizer(letters("tekken")),
                 "tokenizer.ggml.pre is tekken: how it cuts texts is not known; known are gpt-2"));
  GgufBytes unnamed = letters("gpt-2");
  unnamed.entries.erase(unnamed.entries.begin() + 1);
  CHECK(contains(said_of_tokenizer(unnamed), "tokenizer.ggml.pre is default"));
  GgufBytes unigram;
  unigram.add("tokenizer.ggml.model", GgufBytes::kText, GgufBytes::text("t5"))
      .add("tokenizer.ggml.tokens", GgufBytes::kList, GgufBytes::list(GgufBytes::kText, 0, ""));
  CHECK(contains(said_of_tokenizer(unigram), "tokenizer.ggml.model is t5; gpt2, llama and bert"));
  CHECK(contains(said_of_tokenizer(letters("gpt-2").add(
                     "tokenizer.ggml.token_type", GgufBytes::kList,
                     GgufBytes::list(GgufBytes::kU32, 1, bytes_of<uint32_t>(1)))),
                 "2 tokens have 1 types"));
  CHECK(contains(said_of_tokenizer(letters("gpt-2")
                                       .add("tokenizer.ggml.add_bos_token", GgufBytes::kBool, "\1")
                                       .add("tokenizer.ggml.bos_token_id", GgufBytes::kU32,
                                            bytes_of<uint32_t>(2))),
                 "there is no token 2, only 2"));
  const auto tokens = [](const std::string& first, const std::string& second) {
    GgufBytes file = letters("gpt-2");
    file.entries.erase(file.entries.begin() + 2);
    return file.add(
        "tokenizer.ggml.tokens", GgufBytes::kList,
        GgufBytes::list(GgufBytes::kText, 2, GgufBytes::text(first) + GgufBytes::text(second)));
  };
  CHECK(contains(said_of_tokenizer(tokens("a", "a")), "the token 'a' appears twice"));
  CHECK(contains(said_of_tokenizer(tokens("a", "\xff")), "token 1 is not UTF-8"));
  GgufBytes scored = tokens(std::string(1000, 'a'), "b");
  scored.entries[0] = GgufBytes()
                          .add("tokenizer.ggml.model", GgufBytes::kText, GgufBytes::text("llama"))
                          .entries[0];
  CHECK(contains(said_of_tokenizer(scored), "the metadata has no tokenizer.ggml.scores"));
  scored.add("tokenizer.ggml.scores", GgufBytes::kList,
             GgufBytes::list(GgufBytes::kF32, 2, bytes_of(0.f) + bytes_of(1.f)));
  CHECK(contains(said_of_tokenizer(scored), "token 0 has 1000 bytes, at most 256"));
}

}  // namespace tern::test_gguf_model
