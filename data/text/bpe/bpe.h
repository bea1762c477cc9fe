// Byte-pair encoding (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909) over bytes: merges
// frequent pairs of neighbours into longer pieces. The alphabet is the 256 bytes, so no text is
// unknown and decode(encode(s)) == s for any string.
//
// Text is first cut into chunks, which merges never cross: a word with the space before it, a run
// of digits or of other marks; an apostrophe between letters ends a chunk (l'|homme). A space is
// added in front of the text, so that a word has the same pieces everywhere in a sentence.
//
// Ids: the special tokens of vocabulary.h (which encode never returns), the bytes, the merges.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/core/base/rng.h"

namespace tern::datasets {

struct BpeOptions {
  int64_t merges = 8000;  ///< largest number of merges
  int64_t min_count = 2;  ///< do not merge rarer pairs
};

class Bpe {
 public:
  /// The two ids that a merge joins.
  using Merge = std::pair<int32_t, int32_t>;

  /// Only bytes, no merges.
  Bpe();
  /// Learns the merges from texts: always merges the most frequent pair, and among equals the pair
  /// with the smaller ids. The order of the texts does not matter. For a vocabulary shared by two
  /// languages pass the texts of both.
  static Bpe learn(std::span<const std::string> texts, const BpeOptions& options = {});
  /// Error: a merge of special ids or of later ids, or a duplicate merge.
  explicit Bpe(std::vector<Merge> merges);

  int64_t size() const;
  const std::vector<Merge>& merges() const;

  /// Thread-safe. Caches chunks.
  std::vector<int64_t> encode(std::string_view text) const;
  /// BPE dropout (Provilkov et al. 2020, https://arxiv.org/abs/1910.13267), for training: skips
  /// each merge with this probability whenever its turn comes, so that the same word has other
  /// pieces each time. 0: as above; 1: single bytes. The paper takes .1. Thread-safe. Error: not a
  /// probability.
  std::vector<int64_t> encode(std::string_view text, double dropout, Rng random) const;
  /// The bytes of these pieces, without special tokens. A model's output need not be valid UTF-8.
  /// Error: an unknown id.
  std::string decode(std::span<const int64_t> ids) const;
  /// For display: spaces as ▁, bytes that are not a whole character as <E9>.
  std::string piece(int64_t id) const;

  /// Writes JSON with a checksum, completely or not at all.
  void save(const std::string& path) const;
  /// IoError if the file is damaged, of another kind or from a later version.
  static Bpe load(const std::string& path);

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tern::datasets
