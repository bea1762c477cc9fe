// The tokenizer of a language model: learned and published ones through one interface, texts in
// pieces, bytes of tokens, files.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>

#include "tern/core/base/error.h"
#include "tern/data/text/tokenizer/language_tokenizer.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/errors.h"

namespace tern::test_language_tokenizer {
using namespace tern::datasets;
using nlohmann::json;
using Ids = std::vector<int64_t>;

namespace {

const std::string kFolder = std::string(TERN_SOURCE_DIR) + "/tests/reference/pretrained/";

LanguageTokenizer published(const std::string& name) {
  return PretrainedTokenizer::load(kFolder + name + ".json");
}

/// The texts of the reference cases, which are odd ones.
std::vector<std::string> odd_texts(const std::string& name) {
  std::vector<std::string> out;
  for (const json& c : json::parse(test::read_file(kFolder + "cases.json")).at(name))
    out.push_back(c.at("text"));
  return out;
}

/// The ids of a text that comes in pieces of random sizes.
Ids in_pieces(const LanguageTokenizer& tokenizer, const std::string& text, std::mt19937& rng) {
  Ids ids;
  std::string rest;
  for (size_t at = 0; at < text.size();) {
    const size_t size = std::uniform_int_distribution<size_t>(1, 40)(rng);
    rest += text.substr(at, size);
    at += size;
    rest.erase(0, tokenizer.encode_beginning(rest, ids));
  }
  const Ids last = tokenizer.encode(rest);
  ids.insert(ids.end(), last.begin(), last.end());
  return ids;
}

/// A published tokenizer that joins line ends, with other parts.
LanguageTokenizer joining_lines(const std::string& name, const json& parts = json::object()) {
  json file = json::parse(test::read_file(kFolder + name + ".json"));
  for (const char* end : {"\u010A", "\u010D"}) {  // how \n and \r are spelt
    file["model"]["vocab"][std::string(end) + "\u010A"] = file["model"]["vocab"].size() + 100;
    file["model"]["merges"].push_back({end, "\u010A"});
  }
  file.update(parts);
  return PretrainedTokenizer::parse(file.dump());
}

json sequence(const std::vector<json>& parts) {
  return {{"type", "Sequence"}, {"pretokenizers", parts}};
}

}  // namespace

TEST_CASE("language tokenizer: the ids of a text in pieces are those of the whole text") {
  const json digits = {{"type", "Digits"}, {"individual_digits", true}},
             bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}};
  json qwen = json::parse(test::read_file(kFolder + "llama3.json"))["pre_tokenizer"];
  std::string& pattern = qwen["pretokenizers"][0]["pattern"]["Regex"].get_ref<std::string&>();
  pattern.erase(pattern.find("{1,3}"), 5);
  const std::vector<LanguageTokenizer> tokenizers = {
      joining_lines("gpt2"), joining_lines("gpt2", {{"pre_tokenizer", sequence({digits, bytes})}}),
      joining_lines("gpt2", {{"pre_tokenizer", sequence({bytes, digits})}}),
      joining_lines("llama3"),
      joining_lines("llama3", {{"pre_tokenizer", qwen}, {"normalizer", {{"type", "NFC"}}}})};
  const std::vector<std::string> parts = {"\n", "\n\n", "\r\n", " ",   "\t",      "\u3000",
                                          "a",  "1",    "!",    "'ll", "e\u0301", "<|end|>"};
  std::mt19937 rng(1);
  for (size_t which = 0; which < tokenizers.size(); ++which) {
    CAPTURE(which);
    const LanguageTokenizer& t = tokenizers[which];
    for (int i = 0; i < 200; ++i) {
      std::string text;
      for (int n = 0; n < 60; ++n) text += parts[rng() % parts.size()];
      CAPTURE(json(text).dump());
      CHECK(in_pieces(t, text, rng) == t.encode(text));
    }
    Ids ids;
    CHECK(t.encode_beginning("one\n\ntwo", ids) == (which < 3 ? 4 : 5));
    CHECK(t.encode_beginning("1,\r\n2", ids) == (which == 0 || which == 2 ? 3 : 4));
    CHECK(t.encode_beginning("\n\n<|end|>", ids) == (which < 3 ? 0 : 2));
  }
  json whole = bytes;
  whole["use_regex"] = false;
  Ids none;
  CHECK(joining_lines("gpt2", {{"pre_tokenizer", whole}}).encode_beginning("a\nb", none) == 0);
}

TEST_CASE("language tokenizer: odd texts in pieces, and tokenizers that need the whole text") {
  std::mt19937 rng(1);
  for (const char* name : {"gpt2", "llama3"}) {
    CAPTURE(name);
    const LanguageTokenizer t = published(name);
    std::string text;
    for (const std::string& odd : odd_texts(name)) text += odd + "\n";
    for (const char* lines : {"a\n\nb\n c\n\td\n!e\n\r\nf\r\ng\n/h\n'll\n1\n"}) text += lines;
    const Ids whole = t.encode(text);
    for (int i = 0; i < 20; ++i) CHECK(in_pieces(t, text, rng) == whole);
    Ids ids;
    CHECK(t.encode_beginning("one\ntwo", ids) == 4);
    CHECK(t.encode_beginning("one\n two\n", ids) == 0);  // more white space could follow
  }
  for (const char* name : {"llama2", "roberta", "clip", "bert"}) {  // they depend on the whole text
    Ids ids;
    CHECK(published(name).encode_beginning("one\ntwo\nthree", ids) == 0);
    CHECK(ids.empty());
  }
}

TEST_CASE("language tokenizer: tokens decode one by one to the bytes of the text") {
  for (const auto& row :
       {std::pair<const char*, const char*>{"gpt2", ""}, {"llama3", ""}, {"llama2", " "}}) {
    const char *const name = row.first, *const front = row.second;
    CAPTURE(name);
    const LanguageTokenizer t = published(name);
    for (const char* text : {"one two", "caf\u00e9 \u65e5\u672c \U0001F642\n\n\tx  y"}) {
      const Ids ids = t.encode(text);
      CHECK(t.decode(ids) == front + std::string(text));
      std::string one_by_one;
      for (const int64_t id : ids) one_by_one += t.decode(std::span(&id, 1));
      CHECK(one_by_one == front + std::string(text));
    }
  }
  CHECK(published("gpt2").decode(Ids{*published("gpt2").id("<|end|>")}) == "<|end|>");
  CHECK_THROWS_WITH_AS(published("gpt2").decode(Ids{1 << 20}), doctest::Contains("no token"),
                       Error);
}

TEST_CASE("language tokenizer: boundary and ends") {
  const LanguageTokenizer llama = published("llama3");
  REQUIRE(llama.boundary().has_value());
  CHECK(llama.encode_prompt("a").front() == *llama.boundary());
  CHECK(llama.encode_prompt("a").size() == llama.encode("a").size() + 1);
  const LanguageTokenizer plain = published("gpt2");
  CHECK_FALSE(plain.boundary().has_value());
  CHECK(plain.encode_prompt("a") == plain.encode("a"));
  LanguageTokenizer bytes = ByteBpe::learn(std::vector<std::string>{}, {.size = 257});
  CHECK(bytes.boundary() == 256);
  CHECK(bytes.is_end(256));
  CHECK_FALSE(bytes.is_end(65));
  bytes.set_ends({65, 66});
  CHECK(bytes.is_end(66));
  CHECK_FALSE(bytes.is_end(256));
  CHECK_THROWS_WITH_AS(bytes.set_ends({300}), doctest::Contains("300"), Error);
}

TEST_CASE("language tokenizer: the files of a learned one give the same ids") {
  const test::TempDir dir;
  std::vector<std::string> texts = odd_texts("gpt2");
  const ByteBpe learned = ByteBpe::learn(texts, {.size = 400});
  LanguageTokenizer(learned).save(dir.path());
  for (const char* name : {"vocab.json", "merges.txt", "tokenizer.json"})
    CHECK(std::filesystem::exists(dir / name));
  const LanguageTokenizer whole = LanguageTokenizer::load(dir.path());
  std::filesystem::remove(dir / "tokenizer.json");
  const LanguageTokenizer parts = LanguageTokenizer::load(dir.path());
  for (const LanguageTokenizer& t : {whole, parts}) {
    CHECK(t.size() == learned.size());
    CHECK(t.boundary() == learned.id(kEndOfText));
    for (const std::string& text : texts) {
      CAPTURE(text);
      CHECK(t.encode(text) == learned.encode(text));
    }
    // Only a published tokenizer finds its special tokens in a text.
    CHECK(t.encode(kEndOfText) == Ids{*learned.id(kEndOfText)});
    CHECK(learned.encode(kEndOfText).size() > 1);
  }
  whole.save(dir.path());
  CHECK(LanguageTokenizer::load(dir.path()).encode("one two") == learned.encode("one two"));
  std::filesystem::remove(dir / "tokenizer.json");
  std::filesystem::remove(dir / "vocab.json");
  CHECK(test::contains(test::io_error([&] { LanguageTokenizer::load(dir.path()); }),
                       "it has no tokenizer"));
  test::write_file(dir / "tokenizer.model", "");
  CHECK(test::contains(test::io_error([&] { LanguageTokenizer::load(dir.path()); }),
                       "writes tokenizer.json"));
}

namespace {

/// A folder with the bytes and <|endoftext|>, id 256, in vocab.json, and without tokenizer.json.
struct Parts {
  test::TempDir dir;
  Parts() {
    LanguageTokenizer(ByteBpe::learn(std::vector<std::string>{}, {.size = 257})).save(dir.path());
    remove("tokenizer.json");
  }
  void remove(const std::string& name) { std::filesystem::remove(dir / name); }
  void put(const std::string& name, const json& file) {
    test::write_file(dir / (name + ".json"), file.dump());
  }
  /// Writes tokenizer.json, and returns its path.
  std::string saved() const {
    load().save(dir.path());
    return dir / "tokenizer.json";
  }
  LanguageTokenizer load() const { return LanguageTokenizer::load(dir.path()); }
  Ids ids() const { return load().encode("a<|user|> b <|bot|>c<|endoftext|>"); }
  std::string refused() const {
    return test::io_error([&] { LanguageTokenizer::load(dir.path()); });
  }
};

/// An entry of added_tokens_decoder.
json entry(const std::string& content, const json& flags = json::object()) {
  json token = {{"content", content}, {"special", true}, {"normalized", false}};
  token.update(flags);
  return token;
}

// The ids of Parts::ids() if <|user|> and <|bot|> have these, in transformers 5.24. 220 is a space.
Ids expected(int64_t user, int64_t bot, int64_t end = 256) {
  return {64, user, 220, 65, 220, bot, 66, end};
}

}  // namespace

TEST_CASE("language tokenizer: added_tokens_decoder continues vocab.json, with all its flags") {
  using Texts = std::vector<std::string>;
  Parts parts;
  parts.put("tokenizer_config",
            {{"added_tokens_decoder",
              {{"258", entry("<|bot|>", {{"special", false}, {"lstrip", true}})},
               {"257", entry("<|user|>", {{"rstrip", true}})}}}});
  const LanguageTokenizer t = parts.load();
  CHECK(t.size() == 259);
  CHECK(parts.ids() == Ids{64, 257, 65, 258, 66, 256});  // without the spaces
  CHECK(t.decode(Ids{257, 258}) == "<|user|><|bot|>");
  CHECK(t.added(true) == Texts{"<|user|>", kEndOfText});
  CHECK(t.added(false) == Texts{"<|bot|>"});
  t.save(parts.dir.path());
  CHECK(parts.ids() == Ids{64, 257, 65, 258, 66, 256});  // by tokenizer.json
  parts.remove("tokenizer.json");

  // A named token is special, and may be the one that begins texts.
  parts.put("tokenizer_config", {{"added_tokens_decoder",
                                  {{"257", {{"content", "<|user|>"}}},
                                   {"258", {{"content", "<|bot|>"}, {"single_word", true}}}}},
                                 {"bos_token", "<|user|>"},
                                 {"add_bos_token", true}});
  CHECK(parts.load().added(true) == Texts{"<|user|>", kEndOfText});
  CHECK(parts.load().encode_prompt("a") == Ids{257, 64});
  CHECK(parts.load().encode("<|bot|>a").size() > 2);  // a word character follows
}

TEST_CASE("language tokenizer: added tokens of other files, numbered as transformers does") {
  using Texts = std::vector<std::string>;
  Parts parts;
  parts.put("added_tokens", {{"<|user|>", 258}, {"<|bot|>", 257}});
  CHECK(parts.ids() == expected(258, 257));
  CHECK(parts.load().added(false) == Texts{"<|bot|>", "<|user|>"});
  parts.put("tokenizer_config", {{"additional_special_tokens", {"<|bot|>"}}});
  CHECK(parts.ids() == expected(258, 257));
  CHECK(parts.load().added(true) == Texts{"<|bot|>", kEndOfText});
  // An added_tokens_decoder, even an empty one, is there instead.
  parts.put("tokenizer_config", {{"added_tokens_decoder", json::object()}});
  CHECK(parts.load().size() == 257);
  parts.remove("added_tokens.json");

  parts.put("tokenizer_config", {{"additional_special_tokens", {"<|user|>", "<|bot|>"}}});
  CHECK(parts.ids() == expected(257, 258));
  CHECK(parts.load().added(true) == Texts{kEndOfText, "<|user|>", "<|bot|>"});
  parts.put("tokenizer_config",
            {{"additional_special_tokens", {"<|user|>", "<|bot|>"}}, {"pad_token", "[PAD]"}});
  CHECK(parts.ids() == expected(258, 259));
  parts.put("tokenizer_config", {{"extra_special_tokens", {"<|bot|>", "<|user|>"}}});
  CHECK(parts.ids() == expected(258, 257));
  parts.remove("tokenizer_config.json");
  parts.put("special_tokens_map",
            {{"additional_special_tokens", {"<|bot|>"}}, {"bos_token", entry("<|user|>")}});
  CHECK(parts.ids() == expected(257, 258));
}

TEST_CASE("language tokenizer: other files add tokens to tokenizer.json, or change their flags") {
  // By transformers 5.24 and 4.57.
  using Texts = std::vector<std::string>;
  Parts parts;
  json whole = json::parse(test::read_file(parts.saved()));
  whole["added_tokens"].push_back(entry("<|user|>", {{"id", 257}}));
  parts.put("tokenizer", whole);
  const Ids same = parts.ids();
  CHECK(same == Ids{64, 257, 220, 65, 220, 27, 91, 65, 78, 83, 91, 29, 66, 256});
  const auto with = [&](const json& config) {
    parts.put("tokenizer_config", config);
    return parts.ids();
  };
  const auto decoder = [&](const char* id, const json& token) {
    return with({{"added_tokens_decoder", {{id, token}}}});
  };
  CHECK(decoder("258", entry("<|bot|>", {{"lstrip", true}, {"special", false}})) ==
        Ids{64, 257, 220, 65, 258, 66, 256});
  CHECK(parts.load().added(false) == Texts{"<|bot|>"});
  parts.load().save(parts.dir.path());
  parts.remove("tokenizer_config.json");
  CHECK(parts.ids() == Ids{64, 257, 220, 65, 258, 66, 256});
  parts.put("tokenizer", whole);

  CHECK(decoder("257", entry("<|user|>", {{"rstrip", true}})) ==
        Ids{64, 257, 65, 220, 27, 91, 65, 78, 83, 91, 29, 66, 256});
  CHECK(decoder("257", entry("<|user|>", {{"special", false}})) == same);
  CHECK(parts.load().added(true) == Texts{kEndOfText, "<|user|>"});
  CHECK(with({{"eos_token", "<|bot|>"}}) == expected(257, 258));
  CHECK(with({{"eos_token", entry("<|user|>", {{"rstrip", true}})}}) == same);
  CHECK(with({{"additional_special_tokens", {"<|x|>", "<|bot|>"}}, {"pad_token", "[PAD]"}}) ==
        expected(257, 260));
  CHECK(with({{"image_token", "<|user|>"}, {"add_eos_token", true}}) == same);
  parts.put("tokenizer_config", {{"image_token", "<|bot|>"}});
  CHECK(test::contains(parts.refused(), "image_token is '<|bot|>', whose id no file gives"));
  parts.put("tokenizer_config", {{"added_tokens_decoder", {{"500", entry("<|bot|>")}}}});
  CHECK(test::contains(parts.refused(),
                       "tokenizer_config.json: the added token '<|bot|>' has the "
                       "id 500, but 258 is the next behind "));
  parts.remove("tokenizer_config.json");
  parts.put("special_tokens_map", {{"eos_token", "<|bot|>"}});
  CHECK(parts.ids() == expected(257, 258));
  parts.remove("special_tokens_map.json");
  parts.put("added_tokens", {{"<|user|>", 257}, {"<|bot|>", 258}});
  CHECK(parts.ids() == expected(257, 258));
  CHECK(parts.load().added(false) == Texts{"<|bot|>"});
  whole["added_tokens"][1]["special"] = false;
  parts.put("tokenizer", whole);
  CHECK(with({{"eos_token", "<|user|>"}}) == expected(257, 258));
  CHECK(parts.load().added(false) == Texts{"<|user|>", "<|bot|>"});
  whole["added_tokens"].erase(0);
  parts.put("tokenizer", whole);
  CHECK(with({{"eos_token", kEndOfText}}).back() == 256);  // in the vocabulary
}

TEST_CASE("language tokenizer: some classes follow add_bos_token, not tokenizer.json") {
  // As transformers 4.57; 5.24 ignores add_bos_token beside tokenizer.json, but does not write it.
  Parts parts;
  parts.put("tokenizer_config", {{"add_bos_token", true}});
  const json with = json::parse(test::read_file(parts.saved()));
  json without = with;
  without["post_processor"] = nullptr;
  const auto prompt = [&](json config, const json& flag) {
    config["add_bos_token"] = flag;
    parts.put("tokenizer_config", config);
    return parts.load().encode_prompt("a");
  };
  const Ids begun = {256, 64}, plain = {64};
  for (const bool front : {true, false}) {
    parts.put("tokenizer", front ? with : without);
    for (const char* name : {"LlamaTokenizerFast", "GPTNeoXTokenizer", "GemmaTokenizer"}) {
      const json config = {{"tokenizer_class", name}, {"bos_token", kEndOfText}};
      CHECK(prompt(config, true) == begun);
      CHECK(prompt(config, false) == plain);
      CHECK(prompt(config, nullptr) == plain);
    }
    for (const char* name : {"PreTrainedTokenizerFast", "Qwen2Tokenizer", "GPT2Tokenizer"}) {
      const json config = {{"tokenizer_class", name}, {"bos_token", kEndOfText}};
      CHECK(prompt(config, !front) == (front ? begun : plain));
    }
  }
  CHECK(prompt({{"tokenizer_class", "LlamaTokenizer"}, {"bos_token", "<|user|>"}}, true) ==
        Ids{257, 64});
  CHECK(json::parse(test::read_file(parts.saved()))["post_processor"].is_object());
  parts.put("tokenizer_config", {{"tokenizer_class", "LlamaTokenizer"}, {"add_bos_token", true}});
  CHECK(test::contains(parts.refused(), "add_bos_token is true, but no file names the bos_token"));
}

TEST_CASE("language tokenizer: the class decides how texts are cut without tokenizer.json") {
  // By transformers 5.24 and 4.57.
  Parts parts;
  json vocab = json::parse(test::read_file(parts.dir / "vocab.json"));
  std::string merges = "#version: 0.2\n";
  int64_t next = 257;
  for (const auto& pair : {std::pair("\u0120", "b"),
                           {"\u010A", "\u010A"},
                           {"!", "\u010A"},
                           {"L", "L"},
                           {"'", "LL"},
                           {"\u00C3", "\u00A9"}}) {
    vocab[std::string(pair.first) + pair.second] = next++;
    merges += std::string(pair.first) + " " + pair.second + "\n";
  }
  parts.put("vocab", vocab);
  test::write_file(parts.dir / "merges.txt", merges);
  const std::vector<std::string> texts = {"I'LL b", "a!\nb", "\n\n b", "e\u0301"};
  const auto all = [&] {
    std::vector<Ids> out;
    for (const std::string& text : texts) out.push_back(parts.load().encode(text));
    return out;
  };
  const std::vector<Ids> gpt2 = {{40, 6, 260, 257}, {64, 0, 198, 65}, {258, 257}, {68, 136, 223}},
                         qwen = {{40, 261, 257}, {64, 259, 65}, {258, 257}, {262}};
  CHECK(all() == gpt2);
  for (const char* name : {"GPT2Tokenizer", "GPT2TokenizerFast", "CodeGenTokenizer"}) {
    parts.put("tokenizer_config", {{"tokenizer_class", name}});
    CHECK(all() == gpt2);
  }
  parts.put("tokenizer_config", {{"tokenizer_class", "Qwen2TokenizerFast"}});
  CHECK(all() == qwen);
  parts.put("config", {{"model_type", "gpt2"}, {"tokenizer_class", "GPT2Tokenizer"}});
  CHECK(all() == qwen);
  parts.load().save(parts.dir.path());
  CHECK(all() == qwen);  // by tokenizer.json
  parts.remove("tokenizer.json");
  parts.put("tokenizer_config", {{"add_bos_token", true}});
  CHECK(all() == gpt2);
  CHECK(parts.load().encode_prompt("a") == Ids{256, 64});
  parts.put("config", {{"model_type", "qwen2"}, {"tokenizer_class", nullptr}});
  CHECK(all() == qwen);
  CHECK(parts.load().encode_prompt("a") == Ids{64});  // Qwen 2 has no bos_token
  parts.put("tokenizer_config", {{"tokenizer_class", "RobertaTokenizer"}});
  CHECK(test::contains(parts.refused(),
                       "tokenizer_class is RobertaTokenizer. Without "
                       "tokenizer.json only GPT2Tokenizer, CodeGenTokenizer and "
                       "Qwen2Tokenizer are supported; AutoTokenizer"));
}

TEST_CASE("language tokenizer: <|endoftext|> is an added token only where others follow it") {
  Parts parts;
  json vocab = json::parse(test::read_file(parts.dir / "vocab.json"));
  vocab.erase(kEndOfText);
  parts.put("vocab", vocab);
  CHECK(parts.load().size() == 256);  // in transformers 257
  parts.put("tokenizer_config", {{"additional_special_tokens", {"<|user|>", "<|bot|>"}}});
  CHECK(parts.ids() == expected(257, 258, 256));
}

TEST_CASE("language tokenizer: added tokens whose ids do not fit are refused by name") {
  Parts parts;
  const auto refused = [&](const char* id, const char* content) {
    parts.put("tokenizer_config", {{"added_tokens_decoder", {{id, entry(content)}}}});
    return parts.refused();
  };
  // transformers gives 257 and 64, whatever the file says.
  CHECK(test::contains(refused("300", "<|user|>"),
                       "tokenizer_config.json: the added token '<|user|>' has the id 300, but 257 "
                       "is the next behind "));
  CHECK(test::contains(refused("257", "a"), "the added token 'a' has the id 257, but 64 in "));
  CHECK(test::contains(refused("64", "<|user|>"), "'<|user|>' has the id 64, but 257 is the next"));
  CHECK(refused("64", "a") == "");
  CHECK(test::contains(refused("x", "b"), "added_tokens_decoder.x: its name is not an id"));
  parts.put("tokenizer_config", {{"image_token", "<|user|>"}});
  CHECK(test::contains(parts.refused(), "image_token is '<|user|>', whose id no file gives"));
  parts.remove("tokenizer_config.json");
  parts.put("added_tokens", {{"<|user|>", 258}});
  CHECK(test::contains(parts.refused(),
                       "added_tokens.json: the added token '<|user|>' has the id "
                       "258, but 257 is the next"));
  parts.put("added_tokens", {{"<|user|>", 257}});
  CHECK(parts.refused() == "");
  json vocab = json::parse(test::read_file(parts.dir / "vocab.json"));
  vocab[kEndOfText] = 300;
  parts.put("vocab", vocab);
  CHECK(
      test::contains(parts.refused(), "have gaps, so the added token '<|user|>' has no known id"));
}

}  // namespace tern::test_language_tokenizer
