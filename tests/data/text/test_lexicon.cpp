// Lexicon: finds the translations in sentence pairs that a known dictionary made.
#include <doctest/doctest.h>

#include <algorithm>

#include "tern/core/base/rng.h"
#include "tern/core/ops/ops.h"
#include "tern/data/text/pairs/lexicon.h"

namespace tern::test_lexicon {
using datasets::EncodedPair;
using datasets::Lexicon;

namespace {

constexpr int64_t kWords = 60, kArticle = 4;  // ends every target; translates no word

/// The translation of a source word. Target sentences have the reverse order.
int64_t translation(int64_t word) { return (word - datasets::kSpecials + 7) % 50 + 8; }

std::vector<EncodedPair> make_pairs(int64_t count) {
  Rng rng(1);
  std::vector<EncodedPair> pairs;
  for (int64_t i = 0; i < count; ++i) {
    EncodedPair p;
    for (uint64_t n = 2 + rng.below(6); n > 0; --n) {
      const auto word = static_cast<int64_t>(datasets::kSpecials + rng.below(50));
      p.source.push_back(word);
      p.target.insert(p.target.begin(), translation(word));
    }
    p.target.push_back(kArticle);
    pairs.push_back(p);
  }
  return pairs;
}

Lexicon learned(const std::vector<EncodedPair>& pairs, int64_t most = 5) {
  return Lexicon::learn(pairs, {.source_vocab = kWords, .target_vocab = kWords, .most = most});
}

bool has(const std::vector<int64_t>& list, int64_t token) {
  return std::count(list.begin(), list.end(), token) == 1;
}

}  // namespace

TEST_CASE("lexicon: finds the dictionary that made the pairs") {
  const std::vector<EncodedPair> pairs = make_pairs(400);
  const Lexicon lexicon = learned(pairs);
  for (int64_t word = datasets::kSpecials; word < datasets::kSpecials + 50; ++word) {
    CAPTURE(word);
    const std::vector<int64_t> list = lexicon.candidates(std::vector<int64_t>{word}, 1);
    CHECK(has(list, translation(word)));
    CHECK(has(list, kArticle));  // the most frequent
    CHECK(has(list, datasets::kEndId));
    CHECK(std::is_sorted(list.begin(), list.end()));
    CHECK(list.size() == datasets::kSpecials + 2);
  }
}

TEST_CASE("lexicon: a list has each token once, and grows with the translations per token") {
  const Lexicon lexicon = learned(make_pairs(100));
  const std::vector<int64_t> source = {5, 9, 5, 30};
  std::vector<int64_t> before;
  for (const int64_t best : {1, 3, 5}) {
    const std::vector<int64_t> list = lexicon.candidates(source, best);
    CHECK(std::adjacent_find(list.begin(), list.end()) == list.end());
    CHECK(std::includes(list.begin(), list.end(), before.begin(), before.end()));
    CHECK(list.size() > before.size());
    before = list;
  }
  // A word that no pair has gives the same list as no word.
  CHECK(lexicon.candidates(std::vector<int64_t>{59}, 5) == lexicon.candidates({}, 5));
}

TEST_CASE("lexicon: no pairs, and tiny vocabularies") {
  const Lexicon empty = learned({});
  CHECK(empty.candidates(std::vector<int64_t>{5}, 5) == std::vector<int64_t>{0, 1, 2, 3});
  const Lexicon few = Lexicon::learn(std::vector<EncodedPair>{{{0}, {1, 1}}},
                                     {.source_vocab = 1, .target_vocab = 2});
  CHECK(few.candidates(std::vector<int64_t>{0}, 100) == std::vector<int64_t>{0, 1});
}

TEST_CASE("lexicon: its state restores it; invalid states are refused") {
  const Lexicon lexicon = learned(make_pairs(50));
  const std::vector<int64_t> source = {8, 40};
  const Lexicon again = Lexicon::from_state(lexicon.state());
  CHECK(again.candidates(source, 5) == lexicon.candidates(source, 5));
  CHECK(again.target_vocab() == kWords);
  auto with = [&](const char* name, const Tensor& value) {
    SafeTensors state = lexicon.state();
    for (auto& [key, t] : state.tensors)
      if (key == name) t = value;
    return state;
  };
  for (const SafeTensors& wrong :
       {SafeTensors(), with("common", zeros({5})), with("common", zeros({4}, DType::i64)),
        with("translations", zeros({kWords}, DType::i64)),
        with("translations", full({kWords, 5}, kWords, DType::i64)),
        with("common", full({5}, -2, DType::i64)), with("target_vocab", zeros({2}, DType::i64))})
    CHECK_THROWS_AS(Lexicon::from_state(wrong), Error);
}

TEST_CASE("lexicon: invalid tokens and numbers are refused") {
  const std::vector<EncodedPair> wrong = {{{5}, {kWords}}};
  CHECK_THROWS_WITH_AS(learned(wrong), doctest::Contains("token 60 of a target is outside"), Error);
  const Lexicon lexicon = learned(make_pairs(10));
  CHECK_THROWS_WITH_AS(lexicon.candidates(std::vector<int64_t>{-1}, 1),
                       doctest::Contains("token -1 of a source"), Error);
  CHECK_THROWS_WITH_AS(lexicon.candidates({}, 6), doctest::Contains("6 translations"), Error);
  CHECK_THROWS_AS(Lexicon::learn({}, {.iterations = 0}), Error);
}

}  // namespace tern::test_lexicon
