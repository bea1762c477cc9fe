// From a line of text to ids and back: normalising, cutting, numbering in one value that is saved
// with a model. The special tokens of vocabulary.h are not part of what encode gives; whoever
// makes batches adds them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tern/data/text/bpe.h"
#include "tern/data/text/normalize.h"
#include "tern/data/text/vocabulary.h"

namespace tern::data {

enum class TokenUnit {
  words,   ///< mark_words and join_words: the text comes back as its spaces were
  spaces,  ///< what stands between spaces, as in d2l.ai's chapters
  bpe,     ///< pieces of words, nothing unknown
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
  /// Knows nothing: every word is unknown.
  Tokenizer() = default;
  /// Learns the vocabulary or the merges of these texts; the texts of both sides for a shared one.
  static Tokenizer learn(std::span<const std::string> texts, const TokenizerOptions& options);
  Tokenizer(TokenUnit unit, const NormalizeOptions& normalize, Vocabulary vocabulary);
  Tokenizer(const NormalizeOptions& normalize, Bpe bpe);

  TokenUnit unit() const { return unit_; }
  const NormalizeOptions& normalize_options() const { return normalize_; }
  /// Number of ids, specials included.
  int64_t size() const;

  /// Any text; bytes that are not UTF-8 become U+FFFD.
  std::vector<int64_t> encode(std::string_view text) const;
  /// Text up to the first kEndId; kPadId and kBeginId are left out, unknown words are "<unk>".
  /// Always valid UTF-8. Error: an id that is not there.
  std::string decode(std::span<const int64_t> ids) const;
  /// A token as it is shown to people, specials too.
  std::string piece(int64_t id) const;

  /// As JSON with a checksum, written whole or not at all.
  void save(const std::string& path) const;
  /// IoError if the file is damaged, something else, or of a later version.
  static Tokenizer load(const std::string& path);

 private:
  TokenUnit unit_ = TokenUnit::words;
  NormalizeOptions normalize_;
  std::variant<Vocabulary, Bpe> table_;
};

}  // namespace tern::data
