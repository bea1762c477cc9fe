// Tokenizers of models from elsewhere: tokenizer.json, the file of the `tokenizers` package of
// Hugging Face (https://huggingface.co/docs/tokenizers), with the ids that package gives.
//
// What is read, and what else is refused by its name:
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
// Truncation and padding of the file are left to whoever makes batches. The tables of Unicode are
// utf8proc's (data/text/unicode.h): characters newer than those, or than the package's own, may be
// cut and normalised otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::data {

struct PretrainedEncodeOptions {
  bool specials = true;  ///< those that the post-processor adds: [CLS] text [SEP]
};

class PretrainedTokenizer {
 public:
  /// IoError with the file: no such JSON, something that is not covered (with its name), or a file
  /// at odds with itself.
  static PretrainedTokenizer load(const std::string& path);

  /// The highest id and one.
  int64_t size() const;
  /// The token of an id; nothing if there is none.
  std::optional<std::string> token(int64_t id) const;
  std::optional<int64_t> id(std::string_view token) const;

  /// Any text; bytes that are not UTF-8 become U+FFFD. Added tokens in it ("<|endoftext|>") are
  /// those tokens. Safe to call from several threads.
  std::vector<int64_t> encode(std::string_view text,
                              const PretrainedEncodeOptions& options = {}) const;
  /// A pair of texts, as the post-processor puts them together.
  struct Pair {
    std::vector<int64_t> tokens, segments;
  };
  Pair encode_pair(std::string_view first, std::string_view second,
                   const PretrainedEncodeOptions& options = {}) const;
  /// Text as the decoder makes it, without special tokens unless they are asked for. Error: an id
  /// that is not there.
  std::string decode(std::span<const int64_t> ids, bool specials = false) const;

 private:
  struct Impl;
  explicit PretrainedTokenizer(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tern::data
