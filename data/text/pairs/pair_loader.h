// Batches of sentence pairs for training: ids padded to tensors, sentences of similar length
// together, in a new mix for every epoch.
//
//   EncodedPairs data = encode_pairs(pairs, german, english, 100);
//   Loader<PairBatch> loader = pair_loader(data.pairs, {.batch_tokens = 4096, .seed = 1});
//   for (PairBatch& batch : loader) ...
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "tern/core/tensor/tensor.h"
#include "tern/data/loading/loader.h"
#include "tern/data/text/pairs/pairs.h"
#include "tern/data/text/tokenizer/tokenizer.h"

namespace tern::datasets {

/// Ids without <bos> and <eos>.
struct EncodedPair {
  std::vector<int64_t> source, target;
};

struct EncodedPairs {
  std::shared_ptr<const std::vector<EncodedPair>> pairs;
  PairReport report;  ///< its "lines" are the given pairs
};

/// Encodes the pairs. Skips and counts pairs with a side of no tokens, or of more than max_length
/// (0: no limit).
EncodedPairs encode_pairs(std::span<const SentencePair> pairs, const Tokenizer& source,
                          const Tokenizer& target, int64_t max_length = 0);

/// Sequences of different length in one tensor.
struct PaddedTokens {
  Tensor tokens;   ///< i64 (B, L), L the longest length; the others are padded with kPadId
  Tensor lengths;  ///< i64 (B)
};
PaddedTokens pad_tokens(std::span<const std::vector<int64_t>> sequences);

/// All i64. S and T are the longest lengths in the batch, with special tokens.
struct PairBatch {
  Tensor source;          ///< (B, S)
  Tensor source_lengths;  ///< (B)
  Tensor target_in;       ///< (B, T): <bos> y_1 ... y_n
  Tensor target_out;      ///< (B, T): y_1 ... y_n <eos>
  Tensor target_lengths;  ///< (B): n + 1
  Tensor indices;         ///< (B): indices of the pairs
};

struct PairLoaderOptions {
  int64_t batch = 0;          ///< largest number of pairs per batch; 0: no limit
  int64_t batch_tokens = 0;   ///< limit of B S and of B T, with padding; 0: no limit
  bool by_length = true;      ///< pairs of similar length together, else in random order
  double max_padding = 0.25;  ///< with by_length: the largest share of padding in B S + B T
  bool shuffle = true;        ///< new batches in a new order for each epoch
  bool source_begin = false;  ///< <bos> before the source
  bool source_end = true;     ///< <eos> after the source
  /// Changes each pair when its batch is made, with the pair's generator of this epoch: to augment.
  /// Several threads call it at once. The limits above count the tokens before the change.
  std::function<EncodedPair(const EncodedPair& pair, Rng random)> vary = {};
  uint64_t seed = 0;
  int workers = 1;   ///< as in LoaderOptions
  int prefetch = 4;  ///< as in LoaderOptions
};

/// An epoch has every pair once. Batches depend only on the options and the epoch, so a loader can
/// seek to a saved position. Epochs may differ in their number of batches. Error: neither batch nor
/// batch_tokens is given, or a single pair exceeds batch_tokens.
Loader<PairBatch> pair_loader(std::shared_ptr<const std::vector<EncodedPair>> pairs,
                              const PairLoaderOptions& options);

}  // namespace tern::datasets
