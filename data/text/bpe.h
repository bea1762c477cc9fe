// Byte-pair encoding (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909) over bytes: frequent
// pairs of neighbours are merged into longer pieces. The alphabet is the 256 bytes, so that no
// text is unknown and decode(encode(s)) == s for any string.
//
// Text is first cut into chunks, which merges never cross: a word with the space before it, a run
// of digits or of other marks; an apostrophe between letters ends a chunk (l'|homme). The text is
// read as if a space stood before it, so that a word has the same pieces anywhere in the sentence.
//
// Ids: the special tokens of vocabulary.h (which encode never gives), the bytes, the merges.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern::data {

struct BpeOptions {
  int64_t merges = 8000;  ///< at most so many
  int64_t min_count = 2;  ///< merge no pair that occurs less often
};

class Bpe {
 public:
  /// The two ids that a merge puts together.
  using Merge = std::pair<int32_t, int32_t>;

  /// Bytes alone, no merges.
  Bpe();
  /// Learns the merges of these texts: always the most frequent pair, and of equal ones the pair
  /// with the smaller ids. The order of the texts makes no difference. For a vocabulary shared by
  /// two languages give the texts of both.
  static Bpe learn(std::span<const std::string> texts, const BpeOptions& options = {});
  /// Error: a merge of ids that are not there yet or special, or that is there twice.
  explicit Bpe(std::vector<Merge> merges);

  int64_t size() const;
  const std::vector<Merge>& merges() const;

  /// Safe to call from several threads; chunks seen before are looked up.
  std::vector<int64_t> encode(std::string_view text) const;
  /// The bytes of these pieces, without special tokens. Text that a model made up need not be
  /// valid UTF-8. Error: an id that is not there.
  std::string decode(std::span<const int64_t> ids) const;
  /// For people: the space as ▁, bytes that are no character of their own as <E9>.
  std::string piece(int64_t id) const;

  /// As JSON with a checksum, written whole or not at all.
  void save(const std::string& path) const;
  /// IoError if the file is damaged, something else, or of a later version.
  static Bpe load(const std::string& path);

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tern::data
