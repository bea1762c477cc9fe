// WordPiece, the tokenizer of BERT ("Google's Neural Machine Translation System", Wu et al. 2016,
// section 4.1; Devlin et al. 2019). Pieces that go on inside of a word begin with ##:
//
//   "Unaffable, isn't it?" -> un ##aff ##able , isn ' t it ?
//
// Text becomes words by BERT's basic tokenizer (basic_tokens), and each word the longest pieces
// from its left; a word that has none is [UNK] as a whole. This and the ids are those of
// transformers' BertTokenizer; the tables of Unicode are utf8proc's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tern::data {

struct WordPieceOptions {
  bool lower = true;                       ///< lower case, letter by letter
  std::optional<bool> strip_accents = {};  ///< left out: as lower
  bool split_cjk = true;                   ///< Chinese characters are words of their own
  int64_t longest_word = 100;              ///< in characters; a longer one is [UNK]
};

/// BERT's words: control characters, U+FFFD and bytes that are not UTF-8 are left out; words end at
/// white space; each mark of punctuation, as what is in ASCII neither letter, digit nor space, is
/// a word. Accents are stripped as marks (Mn) of the canonical decomposition.
std::vector<std::string> basic_tokens(std::string_view text, const WordPieceOptions& options = {});

struct WordPieceLearnOptions {
  int64_t size = 30522;     ///< pieces at most, special ones and the alphabet included
  int64_t min_count = 2;    ///< of a pair that is merged
  int64_t alphabet = 1000;  ///< characters at most, the most frequent; words with others are unused
};

class WordPiece {
 public:
  /// Learns as the trainer of the `tokenizers` package does: starting from characters, the most
  /// frequent pair of neighbouring pieces is merged again and again (a, ##b -> ab; ##a, ##b ->
  /// ##ab); of equally frequent ones the pair that came first into the vocabulary. That is, by
  /// counts, not by the likelihood of Schuster & Nakajima (2012). Pieces: the special ones ([PAD],
  /// [UNK], [CLS], [SEP], [MASK]), characters by code point, those with ##, merges. The order of
  /// the texts makes no difference. Error: the alphabet alone is over the size.
  static WordPiece learn(std::span<const std::string> texts,
                         const WordPieceLearnOptions& learning = {},
                         const WordPieceOptions& options = {});
  /// Piece i has id i. Error: a piece twice, empty, with a line end or not UTF-8; no [UNK].
  explicit WordPiece(std::vector<std::string> pieces, const WordPieceOptions& options = {});

  /// From vocab.txt, a piece a line. IoError with the line: as above.
  static WordPiece load(const std::string& path, const WordPieceOptions& options = {});
  /// As vocab.txt, whole or not at all. The options are not part of it.
  void save(const std::string& path) const;

  const WordPieceOptions& options() const { return options_; }
  int64_t size() const { return static_cast<int64_t>(pieces_.size()); }
  const std::vector<std::string>& pieces() const { return pieces_; }
  const std::string& piece(int64_t id) const;  ///< Error: there is no such id
  std::optional<int64_t> find(std::string_view piece) const;

  // Error: the vocabulary has no such piece.
  int64_t pad_id() const;        ///< [PAD]
  int64_t unknown_id() const;    ///< [UNK]
  int64_t begin_id() const;      ///< [CLS]
  int64_t separator_id() const;  ///< [SEP]
  int64_t mask_id() const;       ///< [MASK]
  bool is_special(int64_t id) const;

  /// Ids of a text; names of special pieces in it ("the [MASK] sat") are those pieces.
  std::vector<int64_t> encode(std::string_view text) const;
  /// The same, but nothing in the text is special: what a file says is text.
  std::vector<int64_t> encode_plain(std::string_view text) const;
  /// Words with spaces between them, none before . , ! ?; [PAD], [CLS] and [SEP] are left out.
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
  size_t longest_piece_ = 0;  // bytes
};

/// What BERT takes: [CLS] a [SEP], or [CLS] a [SEP] b [SEP] with segments 0 and 1.
struct BertTokens {
  std::vector<int64_t> tokens, segments;
};
BertTokens bert_tokens(const WordPiece& pieces, std::span<const int64_t> a,
                       const std::optional<std::vector<int64_t>>& b = {});

}  // namespace tern::data
