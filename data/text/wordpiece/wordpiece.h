// WordPiece, the tokenizer of BERT ("Google's Neural Machine Translation System", Wu et al. 2016,
// section 4.1; Devlin et al. 2019). Pieces inside of a word begin with ##:
//
//   "Unaffable, isn't it?" -> un ##aff ##able , isn ' t it ?
//
// BERT's basic tokenizer cuts text into words (basic_tokens). Each word is then split into the
// longest known pieces from the left; a word that cannot be split is one [UNK]. Tokens and ids
// equal those of transformers' BertTokenizer. Unicode tables are utf8proc's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tern::datasets {

struct WordPieceOptions {
  bool lower = true;                       ///< lower case, letter by letter
  std::optional<bool> strip_accents = {};  ///< default: same as lower
  bool split_cjk = true;                   ///< makes every Chinese character a word
  int64_t longest_word = 100;              ///< in characters; longer words are [UNK]
};

/// BERT's words. Drops control characters, U+FFFD and invalid UTF-8 bytes. Words end at white
/// space. Each punctuation mark is a word, as is each ASCII character that is not a letter, digit
/// or space. Strips accents as marks (Mn) of the canonical decomposition.
std::vector<std::string> basic_tokens(std::string_view text, const WordPieceOptions& options = {});

struct WordPieceLearnOptions {
  int64_t size = 30522;     ///< largest number of pieces, with special ones and the alphabet
  int64_t min_count = 2;    ///< do not merge rarer pairs
  int64_t alphabet = 1000;  ///< largest number of characters; words with rarer ones are ignored
};

class WordPiece {
 public:
  /// Learns like the trainer of the `tokenizers` package. Starting from characters it repeatedly
  /// merges the most frequent pair of neighbours (a, ##b -> ab; ##a, ##b -> ##ab), and among equals
  /// the pair whose parts came first into the vocabulary. So it uses counts, not the likelihood of
  /// Schuster & Nakajima (2012). Order of pieces: special ones ([PAD], [UNK], [CLS], [SEP],
  /// [MASK]), characters by code point, those with ##, merges. The order of the texts does not
  /// matter. Error: the alphabet exceeds the size.
  static WordPiece learn(std::span<const std::string> texts,
                         const WordPieceLearnOptions& learning = {},
                         const WordPieceOptions& options = {});
  /// Piece i has id i. Error: a piece that is duplicate, empty, not UTF-8 or has a line end; no
  /// [UNK].
  explicit WordPiece(std::vector<std::string> pieces, const WordPieceOptions& options = {});

  /// Reads vocab.txt, one piece per line. IoError with the line: as above.
  static WordPiece load(const std::string& path, const WordPieceOptions& options = {});
  /// Writes vocab.txt, completely or not at all. The file does not contain the options.
  void save(const std::string& path) const;

  const WordPieceOptions& options() const { return options_; }
  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  const std::vector<std::string>& pieces() const { return pieces_; }
  const std::string& piece(int64_t id) const;  ///< Error: an unknown id
  std::optional<int64_t> find(std::string_view piece) const;

  // Error: the vocabulary lacks this piece.
  int64_t pad_id() const;        ///< [PAD]
  int64_t unknown_id() const;    ///< [UNK]
  int64_t begin_id() const;      ///< [CLS]
  int64_t separator_id() const;  ///< [SEP]
  int64_t mask_id() const;       ///< [MASK]
  bool is_special(int64_t id) const;

  /// The ids of a text. Names of special pieces in it ("the [MASK] sat") give those pieces.
  std::vector<int64_t> encode(std::string_view text) const;
  /// The same, but names of special pieces are ordinary text, as for files.
  std::vector<int64_t> encode_plain(std::string_view text) const;
  /// Words separated by spaces, none before . , ! ?; without [PAD], [CLS] and [SEP].
  std::string decode(std::span<const int64_t> ids) const;

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  int64_t special(size_t which) const;
  void append_word(const std::string& word, std::vector<int64_t>& ids) const;

  std::vector<std::string> pieces_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
  WordPieceOptions options_;
  size_t longest_piece_ = 0;  // in bytes
};

/// BERT's input: [CLS] a [SEP], or [CLS] a [SEP] b [SEP] with segments 0 and 1.
struct BertTokens {
  std::vector<int64_t> tokens, segments;
};
BertTokens bert_tokens(const WordPiece& pieces, std::span<const int64_t> a,
                       const std::optional<std::vector<int64_t>>& b = {});

}  // namespace tern::datasets
