// Tokenizers of published models: tokenizer.json, the file of Hugging Face's `tokenizers` package
// (https://huggingface.co/docs/tokenizers). Gives the same ids as that package.
//
// Supported parts; others are refused by name:
//   models          WordPiece, BPE (of bytes or characters, with byte_fallback, prefix and suffix,
//                   ignore_merges; no dropout), Unigram (with byte_fallback)
//   normalizers     BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend,
//                   Replace (of a string, or runs of spaces), Precompiled, Sequence
//   pre-tokenizers  BertPreTokenizer, ByteLevel, Whitespace, WhitespaceSplit, Metaspace,
//                   Punctuation, Digits, CharDelimiterSplit, Split (by a string, or by the patterns
//                   of GPT-2, Llama 3 and Qwen 2), Sequence
//   post-processors TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel, Sequence
//   decoders        WordPiece, ByteLevel, Metaspace, BPEDecoder, ByteFallback, Fuse, Strip,
//                   Replace, Sequence
// Ignores the file's truncation and padding, which belong to the code that makes batches. Unicode
// tables are utf8proc's (data/text/unicode/unicode.h): characters newer than those, or newer than
// the package's, may be cut and normalised differently.
//
// Memory: a file has at most 256 MiB of text, plain or unpacked from gzip, and 2^23 values of JSON,
// each of which takes up to a hundred bytes while it loads. Beside its tokens, a Unigram model
// takes at most 9 bytes per byte of its pieces, of which there may be 16 MiB. A small file can
// leave up to three million ids unused, 32 bytes each. A text has at most 256 MiB after a
// normalizer or decoder. WordPiece's max_input_chars_per_word is at most 1000, because the time
// grows with its third power.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::datasets {

struct PretrainedEncodeOptions {
  bool specials = true;  ///< add the post-processor's tokens: [CLS] text [SEP]
  /// Special tokens in the text ("<s>") are tokens; otherwise they are text as any other
  /// (`encode_special_tokens` of the package).
  bool find_specials = true;
  bool find_others = true;  ///< the same for added tokens that are not special
};

/// A token that is found in texts before they are cut, with the flags of tokenizer.json.
struct AddedToken {
  std::string content;
  /// Without: the vocabulary's, or else the next one behind it.
  std::optional<int64_t> id = {};
  bool special = true;  ///< decode() can leave it out
  bool normalized = false, single_word = false;
  bool lstrip = false, rstrip = false;  ///< with the white space before it, behind it
  /// No file names it: it is left out if the vocabulary lacks it, unless other tokens follow that
  /// the vocabulary lacks, too.
  bool implied = false;
  bool operator==(const AddedToken&) const = default;
};

/// How a byte-level BPE cuts texts: by GPT-2's pattern, or after NFC by that of Qwen 2.
enum class BytePattern { gpt2, qwen2 };

class PretrainedTokenizer {
 public:
  /// IoError with the file: it is not a tokenizer.json, contradicts itself, or has an unsupported
  /// part or an unknown member (by name). Does not apply the file's `truncation` and `padding`;
  /// transformers applies them only on request.
  static PretrainedTokenizer load(const std::string& path);
  /// The same for the text of such a file. Errors do not name a file.
  static PretrainedTokenizer parse(std::string text);
  /// A byte-level BPE in the files of GPT-2. Bytes without a token are left out of texts, as
  /// transformers does. Those of `added` that it lacks continue the vocabulary in their order.
  /// `front`: the one of them that is put before each text, if it is not empty. Error: an id in
  /// `added` is not the vocabulary's, or leaves a gap behind it.
  static PretrainedTokenizer load_byte_bpe(const std::string& vocab_path,
                                           const std::string& merges_path,
                                           const std::vector<AddedToken>& added,
                                           const std::string& front = "",
                                           BytePattern pattern = BytePattern::gpt2);

  /// The tokenizer with these added tokens instead of its own, which keep their ids. `front`
  /// replaces its post-processor by one that puts this token, one of `added`, before each text, or
  /// none if it is empty. Errors as those of load_byte_bpe; they call this tokenizer `path`.
  PretrainedTokenizer with_tokens(const std::vector<AddedToken>& added,
                                  const std::optional<std::string>& front,
                                  const std::string& path) const;
  const std::vector<AddedToken>& added_tokens() const;

  /// The text of tokenizer.json.
  const std::string& source() const;
  /// The highest id plus 1.
  int64_t size() const;
  /// The token with this id; nothing if there is none.
  std::optional<std::string> token(int64_t id) const;
  std::optional<int64_t> id(std::string_view token) const;
  /// The added tokens that the file calls special, or those that it does not.
  std::vector<std::string> added(bool special) const;

  /// Any text; invalid UTF-8 bytes become U+FFFD. Added tokens in the text ("<|endoftext|>") give
  /// their ids. Thread-safe.
  std::vector<int64_t> encode(std::string_view text,
                              const PretrainedEncodeOptions& options = {}) const;
  /// A pair of texts, joined by the post-processor.
  struct Pair {
    std::vector<int64_t> tokens, segments;
  };
  Pair encode_pair(std::string_view first, std::string_view second,
                   const PretrainedEncodeOptions& options = {}) const;
  /// The decoder's text; special tokens only if `specials`. Error: an unknown id.
  std::string decode(std::span<const int64_t> ids, bool specials = false) const;
  /// What a token adds to a text that is written token by token: the bytes of a byte-level token or
  /// of <0xE9>; else its text, with spaces for the marks of words. Error: an unknown id.
  std::string bytes(int64_t id) const;
  /// The tokens that the post-processor puts before a text, such as <s>.
  std::vector<int64_t> front() const;
  /// The last place at a line end where a text may be cut, whatever follows the text: the ids of
  /// both parts are those of the whole text, unless an added token spans the cut. 0: there is none.
  size_t last_cut(std::string_view text) const;

 private:
  struct Impl;
  static std::shared_ptr<const Impl> read(std::string text);
  explicit PretrainedTokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tern::datasets
