// Scores of translations: BLEU (Papineni et al. 2002, https://aclanthology.org/P02-1040) and chrF
// (Popović 2015, https://aclanthology.org/W15-3049) as sacreBLEU 2 computes them
// (https://github.com/mjpost/sacrebleu, Post 2018), and the toy score of d2l.ai.
//
// Hypotheses and references are plain text, not tokenised, one sentence each, with one reference
// per sentence. A signature says how a score was computed, so that scores can be compared.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tern::datasets {

inline constexpr int kBleuOrder = 4;  ///< n-grams of 1 to 4 tokens

enum class BleuTokens {
  v13a,       ///< as the WMT's script mteval-v13a
  character,  ///< every character except white space
  none,       ///< words between spaces
};

/// Replaces the precision of an order without a match (Chen and Cherry 2014).
enum class BleuSmoothing {
  exp,    ///< 1/2, 1/4, ... matches for the first such order, the second, ...
  floor,  ///< smoothing_value matches
  add_k,  ///< adds smoothing_value to matches and n-grams of every order but the first
  none,   ///< 0, which makes the score 0
};

struct BleuOptions {
  BleuTokens tokens = BleuTokens::v13a;
  bool lowercase = false;
  BleuSmoothing smoothing = BleuSmoothing::exp;
  std::optional<double> smoothing_value = {};  ///< default 0.1 for floor, 1 for add_k
  /// Use only orders for which the hypotheses are long enough. Default: yes for the score of one
  /// sentence, no for a corpus.
  std::optional<bool> effective_order = {};
};

struct BleuScore {
  double score = 0;                            ///< 0 to 100
  std::array<double, kBleuOrder> correct{};    ///< n-grams that the reference has too
  std::array<double, kBleuOrder> total{};      ///< n-grams of the hypotheses
  std::array<double, kBleuOrder> precision{};  ///< in percent
  double brevity_penalty = 1;
  int64_t hypothesis_length = 0, reference_length = 0;  ///< in tokens
};

/// One score over all sentences. Error: different numbers of sentences, or none.
BleuScore corpus_bleu(std::span<const std::string> hypotheses,
                      std::span<const std::string> references, const BleuOptions& options = {});

/// The score of one sentence, by default with effective_order, which short sentences need.
BleuScore sentence_bleu(const std::string& hypothesis, const std::string& reference,
                        const BleuOptions& options = {});

/// "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:tern-0.2.0". Without effective_order the
/// score is a corpus's: eff:no.
std::string bleu_signature(const BleuOptions& options);

/// sacreBLEU's line: "BLEU|<signature> = 36.33 68.1/43.5/28.9/19.6 (BP = 1.000 ratio = ...)".
std::string to_string(const BleuScore& score, const BleuOptions& options);

/// A sentence as BLEU tokenises it: tokens separated by single spaces.
std::string bleu_tokenize(std::string_view sentence, BleuTokens tokens);

struct ChrfOptions {
  bool lowercase = false;
};

/// chrF2: F-score of character n-grams (1 to 6, without white space), with recall weighted twice; 0
/// to 100. Error: different numbers of sentences, or none.
double corpus_chrf(std::span<const std::string> hypotheses, std::span<const std::string> references,
                   const ChrfOptions& options = {});

/// "nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:tern-0.2.0".
std::string chrf_signature(const ChrfOptions& options);

/// "bleu" of d2l.ai's chapters on translation (section 10.7), 0 to 1; not comparable with BLEU:
/// exp(min(0, 1 - len(label) / len(predicted))) prod_n p_n^(1/2^n), for n up to k and the length of
/// `predicted`. Words are separated by single spaces.
double d2l_bleu(std::string_view predicted, std::string_view label, int64_t k);

}  // namespace tern::datasets
