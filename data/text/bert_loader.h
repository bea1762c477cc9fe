// Batches for the pre-training of BERT (Devlin et al. 2019, section 3.1 and appendix A.2): pairs of
// text spans, half of which go on one with the other, and masked words in them.
//
//   WordPiece pieces = WordPiece::load("vocab.txt");  // or learn
//   auto text = std::make_shared<Documents>(
//       read_documents(paths, pieces, {.longest_sentence = 62}));
//   Loader<BertBatch> loader = bert_loader(text, pieces, {.batch = 32, .max_tokens = 128});
//   for (BertBatch& b : loader) ...  // models/bert.h goes on
//
// An epoch goes through every document once. A span of sentences is taken until it has the tokens
// of a sequence, and is cut in two at random, into A and B. In half of all pairs B is what follows
// A; in the others it is taken from another document, and the span's rest comes again. (With one
// document B comes from another place of it.) A pair over max_tokens loses tokens at either end
// of the longer half. A sentence that is left alone at the end of a document begins no pair.
//
// Of each sequence 15 % of the tokens are to be predicted, one at least, special ones never; of
// these 80 % become [MASK], 10 % any word that is not special, 10 % stay.
#pragma once

#include <cstdint>
#include <memory>

#include "tern/core/tensor/tensor.h"
#include "tern/data/loading/loader.h"
#include "tern/data/text/documents.h"
#include "tern/data/text/wordpiece.h"

namespace tern::data {

/// All i64. B sequences, T tokens of the longest, K places to be predicted.
struct BertBatch {
  Tensor tokens;    ///< (B, T): [CLS] a [SEP] b [SEP], [PAD] behind the end
  Tensor segments;  ///< (B, T): 0 up to the first [SEP], 1 behind it, 0 behind the end
  Tensor lengths;   ///< (B)
  Tensor places;    ///< (K), rising: b T + t of every token that is to be predicted
  Tensor words;     ///< (K): what stood there
  Tensor next;      ///< (B): 0 where B follows A, 1 where it is from elsewhere; undefined: no pairs
};

struct BertLoaderOptions {
  int64_t batch = 32;
  int64_t max_tokens = 128;    ///< of a sequence, [CLS] and [SEP] included; 5 at least
  bool pairs = true;           ///< false: [CLS] sentences [SEP], and nothing about what follows
  double short_share = 0.1;    ///< of sequences that are made for a random smaller number of tokens
  double masked_share = 0.15;  ///< of tokens
  double as_mask = 0.8, as_random = 0.1;  ///< shares of the masked ones
  bool shuffle = true;                    ///< else sequences come in the order of the text
  uint64_t seed = 0;
  int workers = 1;   ///< as in LoaderOptions
  int prefetch = 4;  ///< as in LoaderOptions
};

/// Sequences, masks and batches depend on the options and the epoch alone, so that a loader can
/// seek to a saved position; epochs need not have equal numbers of batches. Error: options out of
/// range, a vocabulary without ordinary or special words, pairs of a text without a document of two
/// sentences.
Loader<BertBatch> bert_loader(std::shared_ptr<const Documents> text, const WordPiece& pieces,
                              const BertLoaderOptions& options);

}  // namespace tern::data
