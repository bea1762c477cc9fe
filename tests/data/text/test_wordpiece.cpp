// WordPiece against transformers' BertTokenizer (tests/reference/make_wordpiece.py), and learning
// against the naive definition.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/wordpiece/wordpiece.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_wordpiece {
using namespace tern::datasets;
using test::TempDir;

namespace {

using Ids = std::vector<int64_t>;
using Strings = std::vector<std::string>;

const std::string kFolder = std::string(TERN_SOURCE_DIR) + "/tests/reference/wordpiece/";
const Strings kSpecial = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

WordPiece with_pieces(const Strings& more, const WordPieceOptions& options = {}) {
  Strings pieces = kSpecial;
  pieces.insert(pieces.end(), more.begin(), more.end());
  return WordPiece(pieces, options);
}

/// Pieces by the definition, with all pairs counted anew each time.
Strings naive_pieces(const std::map<std::string, int64_t>& words, int64_t size, int64_t least) {
  Strings pieces = kSpecial;
  auto add = [&](const std::string& piece) {
    if (std::find(pieces.begin(), pieces.end(), piece) == pieces.end()) pieces.push_back(piece);
  };
  std::vector<std::pair<Strings, int64_t>> spelt;
  std::map<std::string, bool> letters, inner;
  for (const auto& [word, count] : words) {
    spelt.push_back({{}, count});
    for (std::string_view c : code_points(word)) {
      const bool first = spelt.back().first.empty();
      spelt.back().first.push_back((first ? "" : "##") + std::string(c));
      letters[std::string(c)] = true;
      if (!first) inner[spelt.back().first.back()] = true;
    }
  }
  for (const auto* alphabet : {&letters, &inner})
    for (const auto& letter : *alphabet) add(letter.first);
  auto id = [&](const std::string& p) {
    return std::find(pieces.begin(), pieces.end(), p) - pieces.begin();
  };
  while (std::ssize(pieces) < size) {
    std::map<std::pair<int64_t, int64_t>, int64_t> pairs;
    for (const auto& [parts, count] : spelt)
      for (size_t i = 0; i + 1 < parts.size(); ++i)
        pairs[{id(parts[i]), id(parts[i + 1])}] += count;
    auto best = pairs.end();
    for (auto it = pairs.begin(); it != pairs.end(); ++it)
      if (best == pairs.end() || it->second > best->second) best = it;
    if (best == pairs.end() || best->second < least) break;
    const std::string left = pieces[best->first.first], right = pieces[best->first.second];
    add(left + right.substr(2));
    for (auto& [parts, count] : spelt)
      for (size_t i = 0; i + 1 < parts.size(); ++i)
        if (parts[i] == left && parts[i + 1] == right) {
          parts[i] += right.substr(2);
          parts.erase(parts.begin() + static_cast<int64_t>(i) + 1);
        }
  }
  return pieces;
}

}  // namespace

TEST_CASE("wordpiece: ids and texts equal those of transformers' BertTokenizer") {
  const auto file = nlohmann::json::parse(test::read_file(kFolder + "tokens.json"));
  const auto texts = file.at("texts").get<Strings>();
  REQUIRE(texts.size() == 300);
  int64_t settings = 0;
  for (const auto& setting : file.at("settings")) {
    WordPieceOptions options{.lower = setting.at("lower"), .split_cjk = setting.at("split_cjk")};
    const auto& strip = setting.at("strip_accents");
    if (!strip.is_null()) options.strip_accents = strip.get<bool>();
    const WordPiece pieces = WordPiece::load(kFolder + "vocab.txt", options);
    CHECK(pieces.size() == 1200);
    for (size_t i = 0; i < texts.size(); ++i) {
      CHECK_MESSAGE(pieces.encode(texts[i]) == setting.at("encode")[i].get<Ids>(), settings, i);
      CHECK_MESSAGE(pieces.encode_plain(texts[i]) == setting.at("encode_plain")[i].get<Ids>(),
                    settings, i);
    }
    ++settings;
  }
  CHECK(settings == 5);
  const WordPiece pieces = WordPiece::load(kFolder + "vocab.txt");
  const auto ids = file.at("ids").get<std::vector<Ids>>();
  for (size_t i = 0; i < ids.size(); ++i)
    CHECK(pieces.decode(ids[i]) == file.at("decode")[i].get<std::string>());
  const BertTokens pair = bert_tokens(pieces, pieces.encode("a b"), pieces.encode("c"));
  CHECK(pair.tokens == file.at("pair").get<Ids>());
  CHECK(pair.segments == file.at("pair_segments").get<Ids>());
}

TEST_CASE("wordpiece: the longest pieces from the left, or [UNK] for the whole word") {
  const WordPiece pieces = with_pieces({"un", "unaf", "##aff", "##able", "##fable", "a", "##f"});
  CHECK(pieces.encode("unaffable") == Ids{6, 9});  // unaf ##fable
  CHECK(pieces.encode("unaffables") == Ids{1});
  CHECK(pieces.encode("a b unable") == Ids{10, 1, 5, 8});
  CHECK(pieces.encode("able").size() == 1);  // ##able does not begin a word
  CHECK(pieces.encode("").empty());
  CHECK(pieces.encode(" \t\n\u200b").empty());
  CHECK(pieces.encode("\xFF"
                      "a\xC0") == Ids{10});  // bytes that are not UTF-8 are left out
  const WordPiece cased = with_pieces({"A", "a"}, {.lower = false});
  CHECK(cased.encode("A a") == Ids{5, 6});
  CHECK(with_pieces({"aa"}, {.longest_word = 2}).encode("aa aaa") == Ids{5, 1});
}

TEST_CASE("wordpiece: basic_tokens cuts as BERT does") {
  CHECK(basic_tokens("Don't, $5 a_b\u00a0É") ==
        Strings{"don", "'", "t", ",", "$", "5", "a", "_", "b", "e"});
  CHECK(basic_tokens("É\u4e2d\u6587x", {.lower = false}) == Strings{"É", "中", "文", "x"});
  CHECK(basic_tokens("中文", {.split_cjk = false}) == Strings{"中文"});
  // Every block of Chinese characters at its ends.
  for (const auto& [c, alone] : std::map<char32_t, bool>{
           {0x33FF, false},  {0x3400, true},   {0x4DBF, true},  {0x4DC0, false},  {0x4DFF, false},
           {0x4E00, true},   {0x9FFF, true},   {0xA000, false}, {0xF900, true},   {0xFAFF, true},
           {0xFB00, false},  {0x1FFFF, false}, {0x20000, true}, {0x2A6DF, true},  {0x2A6E0, false},
           {0x2A6FF, false}, {0x2A700, true},  {0x2B73F, true}, {0x2B740, true},  {0x2B81F, true},
           {0x2B91F, false}, {0x2B920, true},  {0x2CEAF, true}, {0x2CEB0, false}, {0x2F7FF, false},
           {0x2F800, true},  {0x2FA1F, true},  {0x2FA20, false}}) {
    std::string text = "a";
    append_utf8(text, c);
    CHECK(basic_tokens(text + "a", {.lower = false}).size() == (alone ? 3 : 1));
  }
  CHECK(basic_tokens("ΟΔΟΣ") == Strings{"οδοσ"});  // no final sigma
}

TEST_CASE("wordpiece: encode recognises special pieces in a text, encode_plain does not") {
  const WordPiece pieces = with_pieces({"the", "[", "]", "mask"});
  CHECK(pieces.encode("the [MASK][SEP]the[mask]") == Ids{5, 4, 3, 5, 6, 8, 7});
  CHECK(pieces.encode_plain("the [MASK]") == Ids{5, 6, 8, 7});
  CHECK(pieces.decode(Ids{2, 5, 4, 3, 0, 0}) == "the [MASK]");
  for (int64_t id = 0; id < pieces.size(); ++id) CHECK(pieces.is_special(id) == (id < 5));
  const WordPiece bare({"[UNK]", "mask", "["});
  CHECK(bare.encode("[MASK") == Ids{2, 1});
  CHECK(bare.encode("[MASK]") == Ids{2, 1, 0});  // it has no such piece
  CHECK_THROWS_WITH_AS(bare.mask_id(), doctest::Contains("has no [MASK]"), Error);
  CHECK_THROWS_AS(bare.piece(3), Error);
  CHECK_THROWS_AS(bare.decode(Ids{-1}), Error);
  const BertTokens one = bert_tokens(pieces, Ids{5, 4});
  CHECK(one.tokens == Ids{2, 5, 4, 3});
  CHECK(one.segments == Ids{0, 0, 0, 0});
  CHECK(bert_tokens(pieces, {}, Ids{}).tokens == Ids{2, 3, 3});
}

TEST_CASE("wordpiece: learned pieces equal the naive definition for any order of texts") {
  Rng rng(3);
  for (int round = 0; round < 12; ++round) {
    // Few letters, so that the same piece comes from several pairs and counts are often equal.
    const Strings letters = {"a", "b", round % 3 == 0 ? "é" : "c"};
    Strings texts;
    std::map<std::string, int64_t> words;
    for (int i = 0; i < 60; ++i) {
      std::string word;
      for (int64_t n = 1 + rng.below(7); n > 0; --n) word += letters[rng.below(3)];
      ++words[word];
      texts.push_back(word);
    }
    const int64_t size = 20 + 10 * (round % 5), least = 1 + round % 3;
    const WordPieceOptions options{.lower = false};
    const WordPiece learned = WordPiece::learn(texts, {.size = size, .min_count = least}, options);
    CHECK(learned.pieces() == naive_pieces(words, size, least));
    CHECK(learned.size() <= size);
    std::reverse(texts.begin(), texts.end());
    CHECK(WordPiece::learn(texts, {.size = size, .min_count = least}, options).pieces() ==
          learned.pieces());
    for (const auto& word : words) CHECK(learned.decode(learned.encode(word.first)) == word.first);
  }
}

TEST_CASE("wordpiece: learning with a small alphabet, without text, with too small a size") {
  const Strings texts = {"aa ab aa xx", "Aa b"};
  const WordPiece learned = WordPiece::learn(texts, {.alphabet = 2});
  CHECK(learned.find("aa").has_value());
  CHECK_FALSE(learned.find("x").has_value());
  CHECK(learned.encode("xx aa") == Ids{1, *learned.find("aa")});
  CHECK(WordPiece::learn({}).pieces() == kSpecial);
  CHECK_THROWS_WITH_AS(WordPiece::learn(texts, {.size = 6}), doctest::Contains("alphabet"), Error);
  CHECK_THROWS_AS(WordPiece::learn(texts, {.size = 4}), Error);
  CHECK_THROWS_AS(WordPiece::learn(texts, {.min_count = 0}), Error);
}

TEST_CASE("wordpiece: vocab.txt reads back the same; invalid vocabularies are refused") {
  TempDir dir;
  const std::string path = dir / "vocab.txt";
  const WordPiece pieces = with_pieces({"a", "##b", "中"});
  pieces.save(path);
  CHECK(test::read_file(path) == "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n中\n");
  CHECK(WordPiece::load(path).pieces() == pieces.pieces());
  WordPiece::load(kFolder + "vocab.txt").save(path);
  CHECK(test::read_file(path) == test::read_file(kFolder + "vocab.txt"));
  auto refused = [&](const std::string& bytes, const char* text) {
    test::write_file(path, bytes);
    CHECK_THROWS_WITH_AS(WordPiece::load(path), doctest::Contains(path.c_str()), IoError);
    CHECK_THROWS_WITH_AS(WordPiece::load(path), doctest::Contains(text), IoError);
  };
  refused("[UNK]\na\nb\na\n", "piece 4 is 'a', and so is piece 2");
  refused("[UNK]\na\n\nb\n", "piece 3 is empty");
  refused("a\nb\n", "no [UNK]");
  refused("[UNK]\n\xFF\n", "UTF-8");
  refused("", "empty");
  CHECK_THROWS_AS(WordPiece::load(dir / "none.txt"), IoError);
  CHECK_THROWS_AS(WordPiece({"[UNK]", "a\nb"}), Error);
  CHECK_THROWS_AS(WordPiece({"[UNK]"}, {.longest_word = 0}), Error);
}

}  // namespace tern::test_wordpiece
