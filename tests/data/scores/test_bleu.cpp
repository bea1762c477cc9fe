// BLEU and chrF against sacreBLEU's scores of 20 files (tests/reference/bleu), and the score of
// d2l.ai.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <map>
#include <sstream>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/data/scores/bleu.h"
#include "tern/data/text/lines/lines.h"
#include "tern/version.h"

namespace tern::test_bleu {
using namespace tern::datasets;

namespace {

const std::string kFolder = TERN_SOURCE_DIR "/tests/reference/bleu/";

/// A line of scores.tsv: name, tokens, lowercase, smoothing, value, effective, score, printed.
std::vector<std::vector<std::string>> score_rows() {
  std::vector<std::vector<std::string>> rows;
  for (const std::string& line : read_lines(kFolder + "scores.tsv")) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, '\t');) rows.back().push_back(cell);
  }
  rows.erase(rows.begin());  // the names of the columns
  return rows;
}

BleuOptions options_of(const std::vector<std::string>& row) {
  const std::map<std::string, BleuTokens> tokens = {
      {"13a", BleuTokens::v13a}, {"char", BleuTokens::character}, {"none", BleuTokens::none}};
  const std::map<std::string, BleuSmoothing> smoothing = {{"exp", BleuSmoothing::exp},
                                                          {"floor", BleuSmoothing::floor},
                                                          {"add-k", BleuSmoothing::add_k},
                                                          {"none", BleuSmoothing::none}};
  BleuOptions options{.tokens = tokens.at(row[1]),
                      .lowercase = row[2] == "1",
                      .smoothing = smoothing.at(row[3]),
                      .effective_order = row[5] == "1"};
  if (!row[4].empty()) options.smoothing_value = std::strtod(row[4].c_str(), nullptr);
  return options;
}

/// sacreBLEU's line with our version in place of its own.
std::string as_ours(std::string printed) {
  const std::string theirs = "version:2.6.0", ours = "version:tern-" + std::string(kVersion);
  return printed.replace(printed.find(theirs), theirs.size(), ours);
}

bool equal(double a, double b) { return std::abs(a - b) <= 1e-9; }

}  // namespace

TEST_CASE("bleu, chrf: scores and printed lines equal sacreBLEU's on 20 files") {
  std::map<std::string, int> files;
  for (const std::vector<std::string>& row : score_rows()) {
    REQUIRE(row.size() == 8);
    ++files[row[0]];
    const auto hypotheses = read_lines(kFolder + row[0] + ".hyp");
    const auto references = read_lines(kFolder + row[0] + ".ref");
    const double expected = std::strtod(row[6].c_str(), nullptr);
    INFO(row[0], " ", row[1], " ", row[2], " ", row[3], " ", row[5]);
    if (row[1] == "chrf") {
      const ChrfOptions options{.lowercase = row[2] == "1"};
      const double score = corpus_chrf(hypotheses, references, options);
      CHECK_MESSAGE(equal(score, expected), score, " ", expected);
      CHECK(fmt::format("chrF2|{} = {:.2f}", chrf_signature(options), score) == as_ours(row[7]));
    } else {
      const BleuOptions options = options_of(row);
      const BleuScore score = corpus_bleu(hypotheses, references, options);
      CHECK_MESSAGE(equal(score.score, expected), score.score, " ", expected);
      CHECK(to_string(score, options) == as_ours(row[7]));
    }
  }
  CHECK(files.size() == 20);
  for (const auto& [name, rows] : files) CHECK(rows == 14);
}

TEST_CASE("bleu: the tokens of 13a, char and none") {
  const auto v13a = [](const char* text) { return bleu_tokenize(text, BleuTokens::v13a); };
  CHECK(v13a("Hello, world! 1,000.5 a.b 3-4 x-y") == "Hello , world ! 1,000.5 a . b 3 - 4 x-y");
  CHECK(v13a("it's &quot;a&amp;lt;b&quot;...") == "it's \" a < b \" . . .");
  CHECK(v13a("é.ü,") == "é . ü ,");
  CHECK(bleu_tokenize(" dé j ", BleuTokens::character) == "d é j");
  CHECK(bleu_tokenize(" a  b. ", BleuTokens::none) == "a b.");
}

TEST_CASE("bleu: the score of one sentence") {
  const std::string reference = "the cat sat on the mat .";
  CHECK(equal(sentence_bleu(reference, reference).score, 100));
  // The precisions are 6/6, 3/5, 1/4 and, smoothed, 1/6; the lengths 6 and 7.
  const double expected = 100 * std::exp(1 - 7.0 / 6) * std::pow(3.0 / 5 * 1.0 / 4 * 1.0 / 6, 0.25);
  CHECK(equal(sentence_bleu("the cat sat the mat on", reference).score, expected));
  CHECK(equal(sentence_bleu("mat .", reference).score, 100 * std::exp(1 - 7.0 / 2)));
  CHECK(sentence_bleu("", reference).score == 0);
}

TEST_CASE("bleu: a sentence keeps its effective order beside another option") {
  CHECK(equal(sentence_bleu("Hello world", "hello world", {.lowercase = true}).score, 100));
  CHECK(sentence_bleu("hello world", "hello world", {.effective_order = false}).score == 0);
  const std::vector<std::string> text = {"hello world"};
  CHECK(corpus_bleu(text, text, {.lowercase = true}).score == 0);
}

TEST_CASE("bleu, chrf: wrong numbers of sentences are errors") {
  const std::vector<std::string> none, one = {"a"}, two = {"a", "b"};
  CHECK_THROWS_AS(corpus_bleu(one, two), Error);
  CHECK_THROWS_AS(corpus_bleu(none, none), Error);
  CHECK_THROWS_AS(corpus_chrf(two, one), Error);
  CHECK_THROWS_AS(corpus_chrf(none, none), Error);
  CHECK_THROWS_AS(corpus_bleu(one, one, {.smoothing_value = -1}), Error);
}

TEST_CASE("d2l_bleu: scores equal those of d2l.ai") {
  CHECK(d2l_bleu("va !", "va !", 2) == 1);
  CHECK(equal(d2l_bleu("je suis chez moi .", "je suis chez moi .", 2), 1));
  CHECK(equal(d2l_bleu("il est malade .", "il est calme .", 2),
              std::sqrt(0.75) * std::pow(1.0 / 3, 0.25)));
  CHECK(equal(d2l_bleu("il est mouillé .", "il est calme .", 2), 0.6580370064762462));
  CHECK(equal(d2l_bleu("a", "a b", 4), std::exp(-1.0)));          // n-grams up to the length
  CHECK(equal(d2l_bleu("a a a", "a b", 1), std::sqrt(1.0 / 3)));  // a match is used once
  CHECK(d2l_bleu("", "a", 2) == 0);
  CHECK_THROWS_AS(d2l_bleu("a", "a", 0), Error);
}

}  // namespace tern::test_bleu
