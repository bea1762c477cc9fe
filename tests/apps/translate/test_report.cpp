// The examples in the report of a translation: of all lengths, the worst ones, and their scores.
#include <doctest/doctest.h>

#include "tern/apps/translate/program.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::translate::test_report {
namespace {

using test::contains;

datasets::SentencePair pair_of(size_t length) {
  return {std::string(length, 'a'), std::string(length, 'b')};
}

}  // namespace

TEST_CASE("translate report: examples are spread evenly from the shortest to the longest") {
  std::vector<datasets::SentencePair> pairs;
  for (const size_t length : {9, 2, 7, 2, 11, 4, 5}) pairs.push_back(pair_of(length));
  CHECK(evenly_by_length(pairs, 7) == std::vector<size_t>{1, 3, 5, 6, 2, 0, 4});
  CHECK(evenly_by_length(pairs, 99) == evenly_by_length(pairs, 7));
  CHECK(evenly_by_length(pairs, 3) == std::vector<size_t>{1, 6, 4});
  CHECK(evenly_by_length(pairs, 1) == std::vector<size_t>{6});
  CHECK(evenly_by_length({}, 3).empty());
}

TEST_CASE("translate report: examples of all lengths, then the worst, by chrF") {
  constexpr size_t kPairs = 20;
  TrainConfig c;
  c.first = 100;
  c.hold_out = kPairs;
  c.model = {.model = "transformer", .layers = 1, .dim = 16, .heads = 2, .ffn = 20};
  const PairFiles files = read_pair_files(c);
  const Tokenizers tokenizers = learn_tokenizers(c, files.train);
  c.model.source_vocab = tokenizers.source.size();
  c.model.target_vocab = tokenizers.target.size();
  const Corpus corpus = encode_corpus(c, files, tokenizers);
  REQUIRE(corpus.valid_text.size() == kPairs);
  const TranslationExamples e =
      translation_examples(TranslationModel(c), tokenizers, corpus.valid_text, false);
  REQUIRE(e.even.size() == 6);
  REQUIRE(e.worst.size() == 4);
  CHECK(e.searched == kPairs);
  size_t pictures = 0, shortest = 1000, longest = 0;
  for (const datasets::SentencePair& p : corpus.valid_text) {
    shortest = std::min(shortest, p.source.size());
    longest = std::max(longest, p.source.size());
  }
  CHECK(e.even.front().source.size() == shortest);
  CHECK(e.even.back().source.size() == longest);
  for (size_t i = 0; i < e.even.size(); ++i) {
    if (i > 0) CHECK(e.even[i - 1].source.size() <= e.even[i].source.size());
    if (e.even[i].attention.groups.empty()) continue;
    ++pictures;
    CHECK(i > 0);  // neither the shortest nor the longest
    CHECK(i + 1 < e.even.size());
  }
  CHECK(pictures == 2);
  for (size_t i = 0; i < e.worst.size(); ++i) {
    CHECK(e.worst[i].chrf >= (i > 0 ? e.worst[i - 1].chrf : 0));
    CHECK(e.worst[i].chrf == datasets::corpus_chrf(std::vector{e.worst[i].translation},
                                                   std::vector{e.worst[i].reference}));
    CHECK(e.worst[0].chrf <= e.even[i].chrf);
  }
  RunSummary run;
  run.epochs = {{.epoch = 1, .metrics = {{"valid_bleu", 12}}}};
  const std::string page = make_report(run, e, kPairs);
  CHECK(contains(page, "<p class=\"answer\">BLEU 12.00 on 20 validation pairs</p>"));
  CHECK(contains(page, "<th>reference</th><th>chrF</th>"));
  CHECK(contains(page, "The worst of 20 validation pairs, by chrF:"));
  CHECK_FALSE(contains(page, "d2l"));
  // Of only a few pairs each is shown once.
  const std::vector<datasets::SentencePair> few(corpus.valid_text.begin(),
                                                corpus.valid_text.begin() + 3);
  const TranslationExamples all = translation_examples(TranslationModel(c), tokenizers, few, false);
  CHECK(all.even.size() == 3);
  CHECK(all.worst.empty());
}

}  // namespace tern::apps::translate::test_report
