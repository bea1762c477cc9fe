// The sentence pairs of a training: reading, splitting, tokenising and encoding them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tern/apps/translate/config.h"
#include "tern/data/text/pairs/pair_loader.h"

namespace tern::apps::translate {

/// Pairs as text, before tokenisation.
struct PairFiles {
  std::vector<datasets::SentencePair> train, valid;
  std::vector<std::string> reports;  ///< a line per file of which something is not used, with why
  std::string description;           ///< "train.de.gz, train.en.gz"
};

/// The two sides of pairs.
struct Sides {
  std::vector<std::string> sources, references;
};
Sides sides_of(const std::vector<datasets::SentencePair>& pairs);

/// Reads the files of the configuration, or generates pairs. Holds some out for validation if no
/// files are given for that. IoError as data/text/pairs/pairs.h.
PairFiles read_pair_files(const TrainConfig& config);

/// n different pairs of made-up English sentences with their French translations, for trying models
/// without a file; at most a million. The same seed gives the same pairs; a smaller n gives the
/// first of them.
std::vector<datasets::SentencePair> generate_pairs(int64_t n, uint64_t seed);

/// Tokenizers for both sides, learned from the training pairs. With config.shared both are the
/// same.
struct Tokenizers {
  datasets::Tokenizer source, target;
};
Tokenizers learn_tokenizers(const TrainConfig& config,
                            const std::vector<datasets::SentencePair>& train);

struct Corpus {
  datasets::EncodedPairs train, valid;
  std::vector<datasets::SentencePair> valid_text;  ///< texts of the pairs in valid, in order
  /// Cuts words in other ways (config.bpe_dropout); empty without that.
  std::function<datasets::EncodedPair(const datasets::EncodedPair&, Rng)> vary;
  std::string checksum;  ///< of all ids: a resumed run must have the same data
};

/// The smallest ratio r >= 1 such that target <= r source + 5 tokens in 99.5 % of the pairs.
double length_ratio(const std::vector<datasets::EncodedPair>& pairs);

Corpus encode_corpus(const TrainConfig& config, const PairFiles& files,
                     const Tokenizers& tokenizers);

/// A remark if validation pairs have the tokens of training pairs on both sides; empty if none has.
/// Pairs with unknown words are not compared: other words may have the same ids.
std::string repeated_pairs_text(const Corpus& corpus);

}  // namespace tern::apps::translate
