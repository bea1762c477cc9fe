// Converts lines of text to ids and back: normalisation, tokens and vocabulary in one value, saved
// with a model. encode does not add the special tokens of vocabulary.h; pair_loader.h does.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tern/data/text/bpe/bpe.h"
#include "tern/data/text/tokenizer/vocabulary.h"
#include "tern/data/text/words/normalize.h"

namespace tern::datasets {

enum class TokenUnit {
  words,   ///< mark_words and join_words: restores the original spaces
  spaces,  ///< words between spaces, as in d2l.ai's chapters
  bpe,     ///< pieces of words; nothing is unknown
};

struct TokenizerOptions {
  TokenUnit unit = TokenUnit::words;
  NormalizeOptions normalize = {};
  VocabularyOptions vocabulary = {};  ///< for words and spaces
  BpeOptions bpe = {};

  /// The settings of d2l.ai's chapters on translation.
  static TokenizerOptions d2l() {
    return {.unit = TokenUnit::spaces,
            .normalize = NormalizeOptions::d2l_form(),
            .vocabulary = {.min_freq = 2}};
  }
};

class Tokenizer {
 public:
  /// An empty vocabulary: every word is unknown.
  Tokenizer() = default;
  /// Learns the vocabulary or merges from texts. For a shared vocabulary pass the texts of both
  /// sides.
  static Tokenizer learn(std::span<const std::string> texts, const TokenizerOptions& options);
  Tokenizer(TokenUnit unit, const NormalizeOptions& normalize, Vocabulary vocabulary);
  Tokenizer(const NormalizeOptions& normalize, Bpe bpe);

  TokenUnit unit() const { return unit_; }
  const NormalizeOptions& normalize_options() const { return normalize_; }
  /// Number of ids, special tokens included.
  int64_t size() const;

  /// Any text; invalid UTF-8 bytes become U+FFFD.
  std::vector<int64_t> encode(std::string_view text) const;
  /// The same with BPE dropout (Bpe::encode). Error: the unit is not bpe, or dropout is not a
  /// probability.
  std::vector<int64_t> encode(std::string_view text, double dropout, Rng random) const;
  /// The text up to the first kEndId, without kPadId and kBeginId; unknown words are "<unk>".
  /// Always valid UTF-8. Error: an unknown id.
  std::string decode(std::span<const int64_t> ids) const;
  /// A token for display, special tokens included.
  std::string piece(int64_t id) const;

  /// Writes JSON with a checksum, completely or not at all.
  void save(const std::string& path) const;
  /// IoError if the file is damaged, of another kind or from a later version.
  static Tokenizer load(const std::string& path);

 private:
  TokenUnit unit_ = TokenUnit::words;
  NormalizeOptions normalize_;
  std::variant<Vocabulary, Bpe> table_;
};

}  // namespace tern::datasets
