// tokenizer.json against the `tokenizers` package (tests/reference/pretrained): ids, texts,
// unsupported parts, limits.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "tern/core/base/error.h"
#include "tern/data/text/pretrained/pretrained_parts.h"
#include "tern/data/text/pretrained/pretrained_tokenizer.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/heap_calls.h"

namespace tern::test_pretrained_tokenizer {
using namespace tern::datasets;
using nlohmann::json;
using test::contains;
using test::io_error;
using test::TempDir;
using test::write_file;

namespace {

using Ids = std::vector<int64_t>;

const std::string kFolder = std::string(TERN_SOURCE_DIR) + "/tests/reference/pretrained/";

json read_json(const std::string& path) { return json::parse(test::read_file(path)); }

PretrainedTokenizer load(const TempDir& dir, const json& file) {
  return PretrainedTokenizer::load(write_file(dir / "tokenizer.json", file.dump()));
}

/// The error text of the file after `change`.
template <class Change>
std::string error_of(const char* name, Change change) {
  const TempDir dir;
  json file = read_json(kFolder + name + ".json");
  change(file);
  return io_error([&] { load(dir, file); });
}

}  // namespace

TEST_CASE("pretrained tokenizers: ids and texts equal those of the tokenizers package") {
  const json cases = read_json(kFolder + "cases.json");
  CHECK(cases.size() >= 16);
  for (const auto& entry : cases.items()) {
    CAPTURE(entry.key());
    const auto t = PretrainedTokenizer::load(kFolder + entry.key() + ".json");
    CHECK(entry.value().size() > 150);
    for (const json& c : entry.value()) {
      const std::string text = c.at("text"), said = c.at("said");
      CAPTURE(c.at("text").dump());
      const Ids ids = c.at("ids"), some = c.at("some");
      CHECK(t.encode(text) == ids);
      CHECK(t.encode(text, {.specials = false}) == c.at("bare").get<Ids>());
      CHECK(t.decode(ids) == c.at("decoded").get<std::string>());
      CHECK(t.decode(ids, true) == c.at("whole").get<std::string>());
      CHECK(t.decode(some) == said);
      if (!c.contains("pair")) continue;
      const auto pair = t.encode_pair(text, c.at("other").get<std::string>());
      CHECK(pair.tokens == c.at("pair").get<Ids>());
      CHECK(pair.segments == c.at("segments").get<Ids>());
    }
  }
}

TEST_CASE("pretrained tokenizers: special tokens in a text may be text") {
  // As the package with encode_special_tokens = True.
  struct Row {
    const char *name, *text;
    Ids ids;
  };
  const std::vector<Row> rows = {
      {"gpt2", "a <s> b<|end|>", {67, 223, 30, 85, 32, 223, 68, 30, 94, 71, 80, 70, 94, 32}},
      {"llama2", "a <s> b", {337, 308, 63, 288, 65, 308, 273}},
      {"llama3", "</s>\n<|end|> b", {30, 17, 85, 32, 201, 30, 94, 71, 80, 70, 94, 32, 223, 68}},
      // NEW is an added token, but not a special one.
      {"roberta", "a<mask> NEW <s>", {381, 30, 79, 67, 85, 77, 32, 223, 421, 223, 30, 85, 32}},
      {"bert", "a [MASK]", {15, 1, 27, 84, 108, 83, 1}},
      {"unigram", "a <s>", {3, 7, 3, 1}},  // the model itself has the piece
  };
  for (const Row& row : rows) {
    CAPTURE(row.name);
    const auto t = PretrainedTokenizer::load(kFolder + row.name + ".json");
    CHECK(t.encode(row.text, {.specials = false, .find_specials = false}) == row.ids);
  }
}

TEST_CASE("pretrained tokenizers: added tokens in white space that another one takes") {
  // By version 0.23.3 of the tokenizers package.
  struct Row {
    std::vector<std::pair<const char*, std::string>>
        added;  // l, r: takes white space before, behind
    const char* text;
    Ids ids;
  };
  const std::vector<Row> rows = {
      {{{"\n", "r"}}, "x\n\n\nx", {1, 3, 3, 3, 1}},
      {{{"\n", "l"}}, "x\n\n\nx", {1, 3, 3, 3, 1}},
      {{{"\n", "lr"}}, "x\n \nx", {1, 3, 1}},
      {{{"A", "r"}, {"\n", ""}}, "A \n x", {4, 3, 2, 1}},
      {{{"A", "r"}, {"\n", "r"}}, "A \n x", {4, 3, 1}},
      {{{"A", "r"}, {" add", ""}}, "A addx", {4, 5, 1}},
  };
  const json vocab = {{"<unk>", 0}, {"x", 1}, {" ", 2}, {"\n", 3}, {"A", 4}, {" add", 5}};
  for (const Row& row : rows) {
    CAPTURE(row.text);
    json file = {
        {"model",
         {{"type", "BPE"}, {"unk_token", "<unk>"}, {"vocab", vocab}, {"merges", json::array()}}},
        {"added_tokens", json::array()}};
    for (const auto& [content, takes] : row.added)
      file["added_tokens"].push_back({{"id", vocab.at(content)},
                                      {"content", content},
                                      {"lstrip", takes.find('l') != takes.npos},
                                      {"rstrip", takes.find('r') != takes.npos}});
    CHECK(PretrainedTokenizer::parse(file.dump()).encode(row.text) == row.ids);
  }
}

TEST_CASE("pretrained tokenizers: Metaspace finds the first character after any normalizer") {
  // By version 0.23.3 of the tokenizers package; tokens are single characters.
  const json reference = read_json(kFolder + "metaspace_first.json");
  const TempDir dir;
  for (const json& row : reference.at("rows")) {
    json file = reference.at("file");
    for (const char* part : {"normalizer", "pre_tokenizer"}) file[part] = row.at(part);
    const auto t = load(dir, file);
    for (size_t i = 0; i < row.at("ids").size(); ++i) {
      CAPTURE(file["normalizer"].dump());
      CAPTURE(file["pre_tokenizer"].dump());
      CAPTURE(reference["texts"][i].dump());
      CHECK(t.encode(reference["texts"][i].get<std::string>()) == row["ids"][i].get<Ids>());
    }
  }
}

TEST_CASE("pretrained tokenizers: tokens and ids") {
  const auto t = PretrainedTokenizer::load(kFolder + "roberta.json");
  CHECK(t.id("<s>") == 0);
  CHECK(t.token(0) == "<s>");
  CHECK(t.token(*t.id("newest")) == "newest");
  CHECK_FALSE(t.id("no such token").has_value());
  CHECK_FALSE(t.token(t.size()).has_value());
  CHECK_FALSE(t.token(-1).has_value());
  CHECK_THROWS_AS(t.decode(Ids{t.size()}), Error);
  // Bytes that are not UTF-8 are read as U+FFFD.
  CHECK(t.encode("a\xFF") == t.encode("a\uFFFD"));
}

TEST_CASE("pretrained tokenizers: unsupported and invalid parts are refused by name") {
  const auto refuses = [](const char* name, const char* why, const auto& change) {
    const std::string error = error_of(name, change);
    CHECK_MESSAGE(contains(error, why), why, " / ", error);
  };
  refuses("bert", "the model WordLevel is not supported",
          [](json& f) { f["model"]["type"] = "WordLevel"; });
  refuses("bert", "the normalizer Nmt is not supported", [](json& f) {
    f["normalizer"] = {{"type", "Nmt"}};
  });
  refuses("bert", "the pre-tokenizer UnicodeScripts is not supported", [](json& f) {
    f["pre_tokenizer"] = {{"type", "UnicodeScripts"}};
  });
  refuses("bert", "the decoder CTC is not supported", [](json& f) {
    f["decoder"] = {{"type", "CTC"}};
  });
  refuses("bert", "the post-processor Magic is not supported", [](json& f) {
    f["post_processor"] = {{"type", "Magic"}};
  });
  refuses("bert", "the regular expression 'a+' is not supported", [](json& f) {
    f["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"Regex", "a+"}}}, {"behavior", "Isolated"}};
  });
  refuses("bert", "the prepend_scheme 'last' is not supported", [](json& f) {
    f["pre_tokenizer"] = {{"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "last"}};
  });
  refuses("bert", "the split behavior 'Lost' is not supported", [](json& f) {
    f["pre_tokenizer"] = {{"type", "Punctuation"}, {"behavior", "Lost"}};
  });
  refuses("bert", "it has no model", [](json& f) { f.erase("model"); });
  refuses("bert", "it has model.speed, which tern does not know",
          [](json& f) { f["model"]["speed"] = 2; });
  refuses("bert", "it has normalizer.lower", [](json& f) { f["normalizer"]["lower"] = true; });
  refuses("bert", "it has added_tokens[1].trim", [](json& f) { f["added_tokens"][1]["trim"] = 1; });
  refuses("bert", "it has templates, which", [](json& f) { f["templates"] = json::object(); });
  refuses("bert", "its version is 2.0", [](json& f) { f["version"] = "2.0"; });
  refuses("bert", "model: it has no vocab", [](json& f) { f["model"].erase("vocab"); });
  refuses("bert", "model.vocab.zz: it is -1", [](json& f) { f["model"]["vocab"]["zz"] = -1; });
  refuses("bert", "the unknown token 'zz' is not in the vocabulary",
          [](json& f) { f["model"]["unk_token"] = "zz"; });
  refuses("bert", "the post-processor adds the token 999999",
          [](json& f) { f["post_processor"]["special_tokens"]["[CLS]"]["ids"] = {999999}; });
  refuses("bert", "TemplateProcessing: there is no token '[CLS]'",
          [](json& f) { f["post_processor"]["special_tokens"].erase("[CLS]"); });
  refuses("bert", "normalizer: it has no type", [](json& f) {
    f["normalizer"] = {{"lowercase", true}};
  });
  refuses("bert", "model.vocab.zz: 1e+77 is not an integer",
          [](json& f) { f["model"]["vocab"]["zz"] = 1e77; });
  refuses("bert", "model.max_input_chars_per_word: it is 1001",
          [](json& f) { f["model"]["max_input_chars_per_word"] = 1001; });
  refuses("bert", "1.8e+77 is not an integer",
          [](json& f) { f["model"]["max_input_chars_per_word"] = 1.8e77; });
  refuses("bert", "18446744073709551615 is not an integer",
          [](json& f) { f["added_tokens"][0]["id"] = UINT64_MAX; });
  refuses("bert", "1.5 is not an integer",
          [](json& f) { f["post_processor"]["special_tokens"]["[CLS]"]["ids"] = {1.5}; });
  refuses("bert", "1e+77 is not an integer",
          [](json& f) { f["post_processor"]["single"][0]["SpecialToken"]["type_id"] = 1e77; });
  refuses("bert", "with the id -5 is not valid", [](json& f) { f["added_tokens"][0]["id"] = -5; });
  refuses("bert", "added_tokens[0].content: expected a string, got 7",
          [](json& f) { f["added_tokens"][0]["content"] = 7; });
  refuses("gpt2", "BPE: dropout is not supported", [](json& f) { f["model"]["dropout"] = 0.1; });
  refuses("gpt2", "the merge 'q' has no space",
          [](json& f) { f["model"]["merges"].push_back("q"); });
  refuses("gpt2", "a token that is not in the vocabulary", [](json& f) {
    f["model"]["merges"].push_back({"zz", "y"});
  });
  refuses("unigram", "model.unk_id: it is 99999", [](json& f) { f["model"]["unk_id"] = 99999; });
  refuses("unigram", "there are no pieces", [](json& f) { f["model"]["vocab"] = json::array(); });
  refuses("bert", "model.vocab.zz: it is 9000000",
          [](json& f) { f["model"]["vocab"]["zz"] = 9000000; });
  refuses("bert", "has the id 9000000; there are",
          [](json& f) { f["added_tokens"][0]["id"] = 9000000; });
  const auto charsmap = [](json& f) -> json& {
    return f["normalizer"]["normalizers"][0]["precompiled_charsmap"];
  };
  refuses("unigram", "is not base64", [&](json& f) { charsmap(f) = "!"; });
  refuses("unigram", "claims", [&](json& f) { charsmap(f) = "/////w"; });
}

TEST_CASE("pretrained tokenizers: the length of a normalised text is limited") {
  const TempDir dir;
  json file = read_json(kFolder + "plain.json");
  json longer = {{"type", "Replace"}, {"pattern", {{"String", "a"}}}, {"content", "aaaaaaaaaa"}};
  file["normalizer"] = {{"type", "Sequence"}, {"normalizers", json::array()}};
  for (int i = 0; i < 20; ++i) file["normalizer"]["normalizers"].push_back(longer);
  const auto t = load(dir, file);
  CHECK_THROWS_WITH_AS(t.encode("a"), doctest::Contains("more than 268435456 bytes"), Error);
}

TEST_CASE("pretrained tokenizers: the length of a decoded text is limited over all tokens") {
  const TempDir dir;
  json file = read_json(kFolder + "plain.json");
  const int64_t id = file["model"]["vocab"].begin().value();
  const std::string token = file["model"]["vocab"].begin().key(), mega(1 << 20, 'x');
  file["decoder"] = {{"type", "Replace"}, {"pattern", {{"String", token}}}, {"content", mega}};
  const auto t = load(dir, file);
  CHECK(t.decode(Ids(2, id)) == mega + mega);
  CHECK_THROWS_WITH_AS(t.decode(Ids(257, id)), doctest::Contains("more than 268435456 bytes"),
                       Error);
}

TEST_CASE("pretrained tokenizers: the pieces of a Unigram model share allocations") {
  const TempDir dir;
  json file = read_json(kFolder + "unigram.json");
  std::mt19937 random(0);
  for (int i = 0; i < 500; ++i) {
    std::string piece(2000, ' ');
    for (char& c : piece) c = static_cast<char>('a' + random() % 26);
    file["model"]["vocab"].push_back({piece, -1.0});
  }
  const std::string path = write_file(dir / "tokenizer.json", file.dump());
  const int64_t before = test::heap_calls;
  const auto t = PretrainedTokenizer::load(path);
  CHECK(test::heap_calls - before < 100'000);  // for a million nodes
  const std::string last = file["model"]["vocab"].back()[0];
  CHECK(t.encode(last + last).size() < t.encode(last.substr(1)).size());
}

TEST_CASE("pretrained tokenizers: invalid bytes become U+FFFD as in the Unicode standard") {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"abc", "abc"},
      {"\xC3", "\uFFFD"},
      {"\xE4\xBD", "\uFFFD"},
      {"\xE4\xBDx", "\uFFFDx"},
      {"\xF0\x9F\x91", "\uFFFD"},
      {"\xF0\x9F\x91\xF0\x9F", "\uFFFD\uFFFD"},
      {"\xED\xA0\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xC0\xAF\xFF", "\uFFFD\uFFFD\uFFFD"},
      {"\xF4\x8F\xBF", "\uFFFD"},
      {"\xF4\x90\x80", "\uFFFD\uFFFD\uFFFD"},
      {"\xE0\xA0", "\uFFFD"},
      {"\xE0\x80", "\uFFFD\uFFFD"},
      {"\xF1\x80\x80z", "\uFFFDz"},
      {"\xEF\xBF\xBD\x80", "\uFFFD\uFFFD"},
  };
  for (const auto& [bytes, text] : rows) CHECK(datasets::detail::lossy_utf8(bytes) == text);
}

}  // namespace tern::test_pretrained_tokenizer
