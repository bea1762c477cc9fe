// Vocabulary, Bpe and Tokenizer: learning against a naive definition, exact decoding, files and
// damage.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <thread>

#include "tern/core/base/error.h"
#include "tern/core/base/rng.h"
#include "tern/data/text/bpe/bpe.h"
#include "tern/data/text/tokenizer/tokenizer.h"
#include "tern/data/text/tokenizer/vocabulary.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/tests/support/data_files.h"

namespace tern::test_tokenizer {
using namespace tern::datasets;
using test::TempDir, test::io_error;

namespace {

using Ids = std::vector<int64_t>;

const std::vector<std::string> kTexts = {
    "low low low low low lower lower newest newest newest newest newest newest",
    "widest widest widest l'homme l'homme, été 2024! 2025"};

/// The pieces of a text, for display.
std::string shown(const Bpe& bpe, const std::string& text) {
  std::string out;
  for (int64_t id : bpe.encode(text)) out += (out.empty() ? "" : "|") + bpe.piece(id);
  return out;
}

/// Merges by the definition: count all pairs anew, merge the most frequent, smaller ids first.
/// `chunks` are words with their counts, as bytes numbered from kSpecials.
std::vector<Bpe::Merge> naive_merges(std::map<std::vector<int32_t>, int64_t> chunks, int merges) {
  std::vector<Bpe::Merge> out;
  for (int m = 0; m < merges; ++m) {
    std::map<Bpe::Merge, int64_t> pairs;
    for (const auto& [ids, count] : chunks)
      for (size_t i = 0; i + 1 < ids.size(); ++i) pairs[{ids[i], ids[i + 1]}] += count;
    auto best = pairs.end();
    for (auto it = pairs.begin(); it != pairs.end(); ++it)
      if (best == pairs.end() || it->second > best->second) best = it;
    if (best == pairs.end() || best->second < 2) break;
    out.push_back(best->first);
    std::map<std::vector<int32_t>, int64_t> next;
    for (const auto& [ids, count] : chunks) {
      std::vector<int32_t> to;
      for (size_t i = 0; i < ids.size(); ++i) {
        if (i + 1 < ids.size() && Bpe::Merge(ids[i], ids[i + 1]) == best->first) {
          to.push_back(static_cast<int32_t>(kSpecials + 256 + m));
          ++i;
        } else {
          to.push_back(ids[i]);
        }
      }
      next[to] += count;
    }
    chunks = next;
  }
  return out;
}

std::string random_bytes(Rng& rng) {
  std::string s;
  for (int64_t n = rng.below(40); n > 0; --n) s += static_cast<char>(rng.below(256));
  return s;
}

std::string random_unicode(Rng& rng) {
  std::string s;
  for (int64_t n = rng.below(30); n > 0; --n) {
    const int64_t c = rng.below(4) ? rng.below(0x250) : rng.below(0x110000);
    if (c < 0xD800 || c > 0xDFFF) append_utf8(s, static_cast<char32_t>(c));
  }
  return s;
}

}  // namespace

TEST_CASE("vocabulary: special tokens, then words by frequency and bytes; unknown words") {
  const WordCounts counts = {{"b", 3}, {"a", 3}, {"é", 3}, {"c", 5}, {"rare", 1}, {"<pad>", 9}};
  const Vocabulary all(counts, {});
  CHECK(all.words() == std::vector<std::string>{"c", "a", "b", "é", "rare"});
  CHECK(all.size() == 9);
  CHECK(all.id("c") == 4);
  CHECK(all.id("é") == 7);
  CHECK(all.id("?") == kUnknownId);
  CHECK(all.id("<pad>") == kUnknownId);  // text cannot make special tokens
  CHECK(all.word(kPadId) == "<pad>");
  CHECK(all.word(8) == "rare");
  CHECK(all.ids(std::vector<std::string>{"b", "x", "c"}) == Ids{6, 0, 4});
  CHECK_THROWS_AS(all.word(9), Error);
  CHECK_THROWS_AS(all.word(-1), Error);
  CHECK(Vocabulary(counts, {.min_freq = 2}).size() == 8);
  CHECK(Vocabulary(counts, {.max_size = 6}).words() == std::vector<std::string>{"c", "a"});
  CHECK(Vocabulary().size() == 4);
  CHECK_THROWS_AS(Vocabulary(counts, {.min_freq = 0}), Error);
  CHECK_THROWS_AS(Vocabulary({"a", "a"}), Error);
  CHECK_THROWS_AS(Vocabulary({"a", "<eos>"}), Error);
  CHECK_THROWS_AS(Vocabulary({"\xFF"}), Error);
}

TEST_CASE("bpe: learned merges equal the naive definition") {
  for (int merges : {0, 1, 5, 12, 100}) {
    const std::vector<std::string> text = {
        "low low low low low lower lower newest newest newest "
        "newest newest newest widest widest widest aaaa aaaaa"};
    std::map<std::vector<int32_t>, int64_t> chunks;
    for (std::string_view word : split_spaces(text[0])) {
      std::vector<int32_t> ids = {kSpecials + ' '};
      for (char c : word) ids.push_back(static_cast<int32_t>(kSpecials) + c);
      ++chunks[ids];
    }
    CHECK(Bpe::learn(text, {.merges = merges}).merges() == naive_merges(chunks, merges));
  }
}

TEST_CASE("bpe: merges do not depend on the order of the texts") {
  std::vector<std::string> turned(kTexts.rbegin(), kTexts.rend());
  CHECK(Bpe::learn(kTexts).merges() == Bpe::learn(turned).merges());
}

TEST_CASE("bpe: pieces of text, seen and unseen") {
  const Bpe bpe = Bpe::learn(kTexts);
  CHECK(bpe.size() == 4 + 256 + std::ssize(bpe.merges()));
  CHECK(shown(bpe, "newest low") == "▁newest|▁low");
  CHECK(shown(bpe, "l'homme") == "▁l'|homme");
  CHECK(shown(bpe, "x") == "▁|x");
  CHECK(shown(Bpe(), "é\t") == "▁|<C3>|<A9>|<09>");
  CHECK(bpe.encode("").empty());
  CHECK(bpe.encode("lower") == bpe.encode("lower"));  // from the cache
  CHECK(bpe.piece(kEndId) == "<eos>");
  CHECK(bpe.decode(Ids{kBeginId, kEndId}) == "");
  CHECK_THROWS_AS(bpe.decode(Ids{bpe.size()}), Error);
  CHECK_THROWS_AS(bpe.piece(-1), Error);
}

TEST_CASE("bpe: decode(encode(s)) == s for any bytes") {
  const Bpe bpe = Bpe::learn(kTexts);
  std::vector<std::string> texts = {" ",
                                    "  ",
                                    " a",
                                    "a ",
                                    "a  b",
                                    "\n a\t ",
                                    "l' '",
                                    "'a'",
                                    std::string("\0\0", 2),
                                    "日本語 テキスト 🙂",
                                    "it's l’été  \u00A0 !!"};
  for (size_t n : {127, 128, 129, 5000}) texts.push_back(std::string(n, 'w') + "é");
  for (size_t n : {126, 127, 128, 129, 1000}) texts.push_back(std::string(n, ' ') + "x");
  texts.push_back([] {
    std::string s;
    for (int i = 0; i < 100; ++i) s += "é'";
    return s;
  }());
  Rng rng(3);
  for (int i = 0; i < 300; ++i) {
    texts.push_back(random_bytes(rng));
    texts.push_back(random_unicode(rng));
  }
  for (const std::string& text : texts) {
    const Ids ids = bpe.encode(text);
    CHECK(bpe.decode(ids) == text);
    CHECK(std::all_of(ids.begin(), ids.end(), [&](int64_t i) { return i >= 4 && i < bpe.size(); }));
  }
}

TEST_CASE("bpe: dropout skips each merge with its probability, whenever its turn comes") {
  // Merges of a chunk: (space, a), (b, c), then both results.
  const auto byte = [](char c) { return int32_t{kSpecials} + static_cast<unsigned char>(c); };
  const int32_t first = int32_t{kSpecials} + 256;
  const Bpe bpe({{byte(' '), byte('a')}, {byte('b'), byte('c')}, {first, first + 1}});
  constexpr double p = .3, q = 1 - p;
  constexpr int kDraws = 20000;
  std::map<std::string, double> found;
  for (int i = 0; i < kDraws; ++i) {
    std::string pieces;
    const Ids ids = bpe.encode("abc", p, Rng(5).stream(static_cast<uint64_t>(i)));
    for (const int64_t id : ids) pieces += (pieces.empty() ? "" : "|") + bpe.piece(id);
    CHECK(bpe.decode(ids) == "abc");
    found[pieces] += 1. / kDraws;
  }
  // Another merge gives a skipped one a new turn.
  const double both = q * q + p * q * q;
  const std::map<std::string, double> expected = {{"▁|a|b|c", p * p},
                                                  {"▁a|b|c", q * p},
                                                  {"▁|a|bc", p * q * p},
                                                  {"▁a|bc", both * p},
                                                  {"▁abc", both * q}};
  CHECK(found.size() == expected.size());
  for (const auto& item : expected) {
    const double share = item.second;
    CAPTURE(item.first);  // within five standard deviations
    CHECK(std::abs(found[item.first] - share) < 5 * std::sqrt(share * (1 - share) / kDraws));
  }
}

TEST_CASE("bpe: dropout of 0 and 1, of any bytes, and by the generator alone") {
  const Bpe bpe = Bpe::learn(kTexts, {.merges = 40, .min_count = 1});
  for (const std::string& text : kTexts) {
    CHECK(bpe.encode(text, 0, Rng(1)) == bpe.encode(text));
    CHECK(bpe.encode(text, 1, Rng(1)) == Bpe().encode(text));
    const Ids some = bpe.encode(text, .5, Rng(1));
    CHECK(some == bpe.encode(text, .5, Rng(1)));
    CHECK(some != bpe.encode(text, .5, Rng(2)));
  }
  const std::string odd = std::string("\xff\0 low", 6) + std::string(3000, 'w');
  CHECK(bpe.decode(bpe.encode(odd, .5, Rng(1))) == odd);
  CHECK(bpe.encode("", .5, Rng(1)) == bpe.encode(""));
  CHECK_THROWS_WITH_AS(bpe.encode("a", 1.5, Rng(1)), doctest::Contains("not a probability"), Error);
  CHECK_THROWS_AS(bpe.encode("a", std::nan(""), Rng(1)), Error);
  const Tokenizer words = Tokenizer::learn(kTexts, {});
  CHECK_THROWS_WITH_AS(words.encode("low", .1, Rng(1)),
                       doctest::Contains("needs the unit bpe; this tokenizer's is words"), Error);
  const Tokenizer pieces = Tokenizer::learn(
      kTexts, {.unit = TokenUnit::bpe, .normalize = {.lower = true}, .bpe = {.merges = 40}});
  CHECK(pieces.encode("LOW", .5, Rng(1)) == pieces.encode("low", .5, Rng(1)));
}

TEST_CASE("bpe: a long word takes linear time; threads share the cache") {
  const Bpe bpe = Bpe::learn(kTexts);
  const std::string word(1 << 20, 'w');
  CHECK(bpe.decode(bpe.encode(word)) == word);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const std::string text = "lowest newer " + std::to_string(i);
        wrong[t] += bpe.decode(bpe.encode(text)) != text;
      }
    });
  for (std::thread& t : threads) t.join();
  CHECK(wrong == std::vector<int>(4));
}

TEST_CASE("bpe: invalid merges are refused") {
  const int32_t a = 4 + 'a';
  CHECK(Bpe({{a, a}, {260, a}}).encode("aaa") == Ids{4 + ' ', 261});
  CHECK_THROWS_AS(Bpe({{a, 260}}), Error);     // not there yet
  CHECK_THROWS_AS(Bpe({{a, kPadId}}), Error);  // special
  CHECK_THROWS_AS(Bpe({{a, -5}}), Error);
  CHECK_THROWS_AS(Bpe({{a, a}, {a, a}}), Error);  // twice
  std::vector<Bpe::Merge> doubling;
  for (int32_t i = 0; i < 40; ++i)
    doubling.push_back(i == 0 ? Bpe::Merge(a, a) : Bpe::Merge(259 + i, 259 + i));
  CHECK_THROWS_AS(Bpe{doubling}, Error);  // 2^40 bytes
  CHECK_THROWS_AS(Bpe::learn(kTexts, {.merges = -1}), Error);
}

TEST_CASE("tokenizer: words, spaces, BPE") {
  const std::vector<std::string> texts = {"The cat eats.", "The dog's cat", "Don't!"};
  const Tokenizer words = Tokenizer::learn(texts, {.normalize = {.lower = true}});
  const Ids ids = words.encode("The DOG eats the cat's bone!");
  CHECK(words.decode(ids) == "the dog eats the cat's <unk>!");
  CHECK(words.piece(ids[0]) == "the");

  const Tokenizer d2l = Tokenizer::learn(texts, TokenizerOptions::d2l());
  CHECK(d2l.size() == 4 + 2);  // the, cat; the rest only once
  CHECK(d2l.decode(d2l.encode("The cat.")) == "the cat <unk>");

  const Tokenizer bpe = Tokenizer::learn(texts, {.unit = TokenUnit::bpe});
  CHECK(bpe.decode(bpe.encode(" any  bytes \xFF!")) == "any bytes \uFFFD!");
  Ids framed = bpe.encode("The cat");
  framed.insert(framed.begin(), kBeginId);
  framed.insert(framed.end(), {kPadId, kEndId, 70});
  CHECK(bpe.decode(framed) == "The cat");
  CHECK(bpe.decode(Ids{4 + 0xC3, 4 + 'x'}) == "\uFFFDx");  // a model may produce this

  CHECK(Tokenizer().encode("a b") == Ids{0, 0});
  CHECK_THROWS_AS(Tokenizer(TokenUnit::bpe, {}, Vocabulary()), Error);
}

TEST_CASE("token files: saved files load the same") {
  TempDir dir;
  const Vocabulary vocabulary({"a", "\"é\"", "\\", "日"});
  vocabulary.save(dir / "v.json");
  CHECK(Vocabulary::load(dir / "v.json").words() == vocabulary.words());
  const Bpe bpe = Bpe::learn(kTexts);
  bpe.save(dir / "b.json");
  CHECK(Bpe::load(dir / "b.json").merges() == bpe.merges());
  CHECK(Bpe::load(dir / "b.json").encode("newest été") == bpe.encode("newest été"));
  for (TokenUnit unit : {TokenUnit::words, TokenUnit::spaces, TokenUnit::bpe}) {
    const NormalizeOptions normal = {.lower = true, .d2l = unit == TokenUnit::spaces};
    const Tokenizer t = Tokenizer::learn(kTexts, {.unit = unit, .normalize = normal});
    t.save(dir / "t.json");
    const Tokenizer u = Tokenizer::load(dir / "t.json");
    CHECK(u.unit() == unit);
    CHECK(u.normalize_options() == normal);
    CHECK(u.size() == t.size());
    CHECK(u.encode("Lower, newest x") == t.encode("Lower, newest x"));
  }
}

TEST_CASE("token files: damage is an IoError that names the file") {
  TempDir dir;
  const std::string path = dir / "t.json", broken = dir / "broken.json";
  for (TokenUnit unit : {TokenUnit::words, TokenUnit::bpe}) {
    Tokenizer::learn(kTexts, {.unit = unit}).save(path);
    const std::string good = test::read_file(path);
    for (size_t i = 0; i < good.size() - 1; i += 7) {  // any byte; the last one is the line's end
      std::string bad = good;
      bad[i] = static_cast<char>(bad[i] ^ 1);
      test::write_file(broken, bad);
      CHECK(io_error([&] { Tokenizer::load(broken); }).starts_with(broken + ": "));
      test::write_file(broken, good.substr(0, i));
      CHECK(io_error([&] { Tokenizer::load(broken); }).starts_with(broken + ": "));
    }
  }
  Vocabulary({"a"}).save(path);
  CHECK(io_error([&] { Bpe::load(path); }).find("'tern-vocabulary', not 'tern-bpe'") !=
        std::string::npos);
  test::write_file(broken, R"({"format":"tern-bpe","version":2,"crc32":0,"content":{}})");
  CHECK(io_error([&] { Bpe::load(broken); }).find("version is 2") != std::string::npos);
  test::write_file(broken, std::string(100000, '['));
  CHECK_THROWS_AS(Bpe::load(broken), IoError);
  CHECK_THROWS_AS(Bpe::load(dir / "missing"), IoError);
}

}  // namespace tern::test_tokenizer
