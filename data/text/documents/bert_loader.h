// Batches for pre-training BERT (Devlin et al. 2019, section 3.1 and appendix A.2): pairs of text
// spans, half of which are consecutive, with masked words.
//
//   WordPiece pieces = WordPiece::load("vocab.txt");  // or learn
//   auto text = std::make_shared<Documents>(
//       read_documents(paths, pieces, {.longest_sentence = 62}));
//   Loader<BertBatch> loader = bert_loader(text, pieces, {.batch = 32, .max_tokens = 128});
//   for (BertBatch& b : loader) ...  // see models/bert.h
//
// An epoch uses every document once. Sentences are added to a span until it has the tokens of a
// sequence; the span is then cut at random into A and B. In half of all pairs B follows A. In the
// others B is from another document, and the rest of the span is used again. (With a single
// document B is from another place in it.) A pair over max_tokens loses tokens at either end of its
// longer half. A single sentence left at the end of a document begins no pair.
//
// In each sequence the model predicts 15 % of the tokens, at least one and never a special one. Of
// these, 80 % become [MASK], 10 % become a random ordinary word, and 10 % stay.
#pragma once

#include <cstdint>
#include <memory>

#include "tern/core/tensor/tensor.h"
#include "tern/data/loading/loader.h"
#include "tern/data/text/documents/documents.h"
#include "tern/data/text/wordpiece/wordpiece.h"

namespace tern::datasets {

/// Counts of a batch.
struct BertCounts {
  int64_t tokens = 0;  ///< without padding
  int64_t words = 0;   ///< to predict
  int64_t pairs = 0;
  bool operator==(const BertCounts&) const = default;
};

/// All i64. B sequences, T tokens in the longest, K tokens to predict.
struct BertBatch {
  Tensor tokens;    ///< (B, T): [CLS] a [SEP] b [SEP], then [PAD]
  Tensor segments;  ///< (B, T): 0 up to the first [SEP], then 1; 0 for padding
  Tensor lengths;   ///< (B)
  Tensor places;    ///< (K), ascending: b T + t for each token to predict
  Tensor words;     ///< (K): the original words
  Tensor next;      ///< (B): 0 if B follows A, 1 if not; undefined without pairs
  /// Counts of the whole batch, even if this is only a block of it (Loader::cut).
  BertCounts whole = {};
};

struct BertLoaderOptions {
  int64_t batch = 32;
  int64_t max_tokens = 128;    ///< per sequence, with [CLS] and [SEP]; at least 5
  bool pairs = true;           ///< false: [CLS] sentences [SEP], without prediction of the next
  double short_share = 0.1;    ///< share of sequences with a random, smaller number of tokens
  double masked_share = 0.15;  ///< share of tokens to predict
  double as_mask = 0.8, as_random = 0.1;  ///< shares of the tokens to predict
  bool shuffle = true;                    ///< else sequences are in text order
  uint64_t seed = 0;
  int workers = 1;   ///< as in LoaderOptions
  int prefetch = 4;  ///< as in LoaderOptions
};

/// Sequences, masks and batches depend only on the options and the epoch, so a loader can seek to a
/// saved position. Epochs may differ in their number of batches. Error: options out of range, a
/// vocabulary without ordinary or special words, pairs without a document of at least two
/// sentences.
Loader<BertBatch> bert_loader(std::shared_ptr<const Documents> text, const WordPiece& pieces,
                              const BertLoaderOptions& options);

}  // namespace tern::datasets
