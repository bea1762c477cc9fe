// The byte-level byte-pair encoding of GPT-2 (Radford et al. 2019) and most later language models,
// with transformers' files: vocab.json (the id of every token) and merges.txt (the pairs in merge
// order). Gives the same tokens as the `tokenizers` package.
//
// Text is cut into chunks, which merges never cross, by the pattern
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// with Unicode's categories. No text is unknown, and decode(encode(s)) == s for any string, even if
// it is not UTF-8. The files write bytes as visible characters (Ġ is the space).
//
// Special tokens ("<|endoftext|>") are tokens of vocab.json that no merge makes. encode never
// returns them, whatever the text contains. (bpe.h is the encoding for translation: with a space in
// front of every sentence and tern's own special tokens.)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::datasets {

struct ByteBpeOptions {
  int64_t size = 8192;    ///< largest number of tokens: the 256 bytes, merges and specials
  int64_t min_count = 2;  ///< do not merge rarer pairs
  std::vector<std::string> specials = {"<|endoftext|>"};  ///< after all others, as in GPT-2
};

class ByteBpe {
 public:
  /// Only the bytes.
  ByteBpe();
  /// Learns the merges from texts: always merges the most frequent pair, and among equals the pair
  /// of earlier tokens. The merges equal those of the BpeTrainer of `tokenizers`.
  static ByteBpe learn(std::span<const std::string> texts, const ByteBpeOptions& options = {});
  /// IoError with file and line: damage, a merge whose parts or result vocab.json lacks, a byte
  /// without a token, a duplicate id. A small file can leave up to a million ids unused, 32 bytes
  /// each.
  static ByteBpe load(const std::string& vocab_path, const std::string& merges_path);
  /// Writes both files, each completely or not at all.
  void save(const std::string& vocab_path, const std::string& merges_path) const;

  /// The highest id plus 1. (A loaded vocabulary may have unused ids below.)
  int64_t size() const;
  /// Whether there is a token with this id.
  bool has(int64_t id) const;
  /// Thread-safe. Caches chunks.
  std::vector<int64_t> encode(std::string_view text) const;
  /// For a text that comes in pieces. Encodes as much of the beginning as cannot change however the
  /// text continues, appends its ids, and returns its size in bytes. Pass the rest again with more
  /// text, and the last rest to encode(): all ids together are those of the whole text.
  /// Thread-safe.
  size_t encode_beginning(std::string_view text, std::vector<int64_t>& ids) const;
  /// The bytes of these tokens, specials as text. A model's output need not be valid UTF-8. Error:
  /// an unknown id.
  std::string decode(std::span<const int64_t> ids) const;
  /// For display: spaces as ▁, bytes that are not a whole character as <E9>.
  std::string piece(int64_t id) const;
  /// The id of the token with these bytes, specials included; nothing if there is none.
  std::optional<int64_t> id(std::string_view token) const;
  /// The tokens that encode never returns, in order of their ids.
  std::vector<std::string> specials() const;

 private:
  struct Impl;
  explicit ByteBpe(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tern::datasets
