// Which tokens of one language translate which of another, learned from pairs of sentences: what
// decoding needs to look at few words alone (decoding::DecodeAllOptions::shortlists).
//
//   auto lexicon = data::Lexicon::learn(*encoded.pairs,
//                                       {.source_vocab = 8000, .target_vocab = 8000});
//   std::vector<int64_t> list = lexicon.candidates(source, 20);
//
// IBM Model 1 (Brown, Della Pietra, Della Pietra & Mercer 1993, "The Mathematics of Statistical
// Machine Translation"): a target token is made by one of the source's tokens or by none, whichever
// is as likely before one looks; how likely each makes which is found by expectation maximisation.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tern/core/io/safetensors.h"
#include "tern/data/text/pair_loader.h"

namespace tern::data {

struct LexiconOptions {
  int64_t source_vocab = 0, target_vocab = 0;
  int iterations = 5;
  int64_t most = 100;  ///< translations that are kept of a token, and tokens that are common
};

class Lexicon {
 public:
  /// Takes 16 bytes for every source and target token that stand in one pair. Error: ids outside of
  /// the vocabularies, no iterations.
  static Lexicon learn(std::span<const EncodedPair> pairs, const LexiconOptions& options);

  int64_t source_vocab() const { return translations_.size(0); }
  int64_t target_vocab() const { return target_vocab_; }
  int64_t most() const { return translations_.size(1); }

  /// The `best` likeliest translations of each token, the `best` commonest target tokens, and the
  /// special ones (padding, begin, end, unknown): rising, each once. 1 <= best <= most(). Error:
  /// tokens outside of the vocabulary.
  std::vector<int64_t> candidates(std::span<const int64_t> source, int64_t best) const;

  SafeTensors state() const;
  /// Error: no such state.
  static Lexicon from_state(const SafeTensors& state);

 private:
  Tensor translations_;  // i64 (source vocabulary, most), the likeliest first; -1 behind the last
  Tensor common_;        // i64 (most), the commonest first; -1 behind the last
  int64_t target_vocab_ = 0;
};

}  // namespace tern::data
