// Chooses the sentences of BERT's pre-training sequences. Inside of data only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tern/core/base/rng.h"
#include "tern/data/text/documents/bert_loader.h"

namespace tern::datasets::detail {

/// Sentences [first, middle) are A. B is [middle, last), or from another place.
struct BertSpan {
  int64_t first, middle, last;
  int64_t target;    ///< number of tokens of the sequence, without special ones
  bool random_next;  ///< B is from another place
  /// The first sentence of the next span.
  int64_t next() const { return random_next ? middle : last; }
};

/// The spans of an epoch. A span depends on the seed, the epoch and its first sentence.
class BertSpans {
 public:
  BertSpans(std::shared_ptr<const Documents> text, const BertLoaderOptions& options);

  BertSpan span(int64_t epoch, int64_t first) const;
  /// The first sentences of all spans of an epoch.
  std::vector<int64_t> starts(int64_t epoch) const;
  /// A sentence for a B from another place.
  int64_t elsewhere(const BertSpan& span, Rng& rng) const;
  /// The largest number of tokens of a sequence, without special ones.
  int64_t room() const { return options_.max_tokens - (options_.pairs ? 3 : 2); }

 private:
  std::shared_ptr<const Documents> text_;
  BertLoaderOptions options_;
};

}  // namespace tern::datasets::detail
