// Which tokens of one language translate which tokens of another, learned from pairs of sentences.
// Decoding uses it to compute only likely words (decoding::DecodeAllOptions::shortlists).
//
//   auto lexicon = datasets::Lexicon::learn(*encoded.pairs,
//                                       {.source_vocab = 8000, .target_vocab = 8000});
//   std::vector<int64_t> list = lexicon.candidates(source, 20);
//
// IBM Model 1 (Brown, Della Pietra, Della Pietra & Mercer 1993, "The Mathematics of Statistical
// Machine Translation"): one of the source's tokens, or none, produces a target token, each with
// equal prior probability. Expectation maximisation estimates which token produces which.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tern/core/io/safetensors.h"
#include "tern/data/text/pairs/pair_loader.h"

namespace tern::datasets {

struct LexiconOptions {
  int64_t source_vocab = 0, target_vocab = 0;
  int iterations = 5;
  int64_t most = 100;  ///< number of kept translations per token, and of common tokens
};

class Lexicon {
 public:
  /// Takes 16 bytes per pair of a source and a target token that occur together. Error: ids outside
  /// of the vocabularies, no iterations.
  static Lexicon learn(std::span<const EncodedPair> pairs, const LexiconOptions& options);

  int64_t source_vocab() const { return translations_.size(0); }
  int64_t target_vocab() const { return target_vocab_; }
  int64_t most() const { return translations_.size(1); }

  /// The `best` most likely translations of each token, the `best` most frequent target tokens and
  /// the special tokens (padding, begin, end, unknown), ascending, without duplicates. 1 <= best <=
  /// most(). Error: tokens outside of the vocabulary.
  std::vector<int64_t> candidates(std::span<const int64_t> source, int64_t best) const;

  SafeTensors state() const;
  /// Error: not a state of a lexicon.
  static Lexicon from_state(const SafeTensors& state);

 private:
  Tensor translations_;  // i64 (source vocabulary, most), most likely first, padded with -1
  Tensor common_;        // i64 (most), most frequent first, padded with -1
  int64_t target_vocab_ = 0;
};

}  // namespace tern::datasets
