// The byte-level byte-pair encoding of GPT-2 (Radford et al. 2019) and most language models since,
// from and to the files of transformers: vocab.json (the id of every token) and merges.txt (the
// pairs in the order in which they are merged). Equal to the `tokenizers` package, token by token.
//
// Text is cut into chunks, which merges never cross, by the pattern
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// with Unicode's categories. No text is unknown, and decode(encode(s)) == s for any string, be it
// UTF-8 or not. In the files the bytes are written as characters that can be seen (Ġ is the space).
//
// Special tokens ("<|endoftext|>") are tokens of vocab.json that no merge makes; encode never gives
// them, whatever the text says. (bpe.h is the encoding for translation: with a space before every
// sentence, and with tern's own special tokens.)
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::data {

struct ByteBpeOptions {
  int64_t size = 8192;    ///< tokens at most: the 256 bytes, the merges and the specials
  int64_t min_count = 2;  ///< merge no pair that occurs less often
  std::vector<std::string> specials = {"<|endoftext|>"};  ///< behind all others, as in GPT-2
};

class ByteBpe {
 public:
  /// The bytes alone.
  ByteBpe();
  /// Learns the merges of these texts: always the most frequent pair; of equal ones the pair of
  /// earlier tokens. The merges are those of the BpeTrainer of `tokenizers`.
  static ByteBpe learn(std::span<const std::string> texts, const ByteBpeOptions& options = {});
  /// IoError with file and line: damaged, a merge of or into a token that vocab.json lacks, a byte
  /// without a token, an id twice.
  static ByteBpe load(const std::string& vocab_path, const std::string& merges_path);
  /// Both files, each written whole or not at all.
  void save(const std::string& vocab_path, const std::string& merges_path) const;

  /// The highest id and one. (In a file's vocabulary, ids in between may be of no token.)
  int64_t size() const;
  /// Whether there is a token of this id.
  bool has(int64_t id) const;
  /// Safe to call from several threads; chunks seen before are looked up.
  std::vector<int64_t> encode(std::string_view text) const;
  /// The bytes of these tokens; specials as they are spelt. What a model made up need not be valid
  /// UTF-8. Error: an id that is not there.
  std::string decode(std::span<const int64_t> ids) const;
  /// For people: the space as ▁, bytes that are no character of their own as <E9>.
  std::string piece(int64_t id) const;
  /// Of the token that stands for these bytes, specials too; nothing if there is none.
  std::optional<int64_t> id(std::string_view token) const;
  /// The tokens that encode never gives, in the order of their ids.
  std::vector<std::string> specials() const;

 private:
  struct Impl;
  explicit ByteBpe(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tern::data
