// The tokenizer of a model that continues texts: one that tern learned (ByteBpe), or the one of a
// published model (PretrainedTokenizer).
//
//   auto tokenizer = LanguageTokenizer::load("SmolLM2-135M-Instruct");
//   std::vector<int64_t> ids = tokenizer.encode_prompt("Once upon a time");
//   std::string text = tokenizer.decode(ids);
//
// A ByteBpe never finds its special tokens in a text. A published tokenizer finds its added tokens
// ("<|im_end|>"), as transformers does.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tern/data/text/bpe/byte_bpe.h"
#include "tern/data/text/pretrained/pretrained_tokenizer.h"

namespace tern::datasets {

/// The token that ends a document, unless the tokenizer has another one.
inline constexpr const char* kEndOfText = "<|endoftext|>";

class LanguageTokenizer {
 public:
  /// Only the bytes.
  LanguageTokenizer() : LanguageTokenizer(ByteBpe()) {}
  LanguageTokenizer(ByteBpe tokenizer);              // NOLINT: implicit on purpose
  LanguageTokenizer(PretrainedTokenizer tokenizer);  // NOLINT: implicit on purpose
  /// The tokenizer of a folder of transformers: tokenizer.json, or vocab.json and merges.txt of
  /// GPT2Tokenizer, CodeGenTokenizer or Qwen2Tokenizer; with the tokens that tokenizer_config.json,
  /// special_tokens_map.json and added_tokens.json add. IoError if there is neither, for another
  /// class, or if the id of an added token contradicts these files.
  static LanguageTokenizer load(const std::string& folder);
  /// Writes tokenizer.json, and for a ByteBpe also vocab.json and merges.txt.
  void save(const std::string& folder) const;

  /// Whether it is a PretrainedTokenizer, which finds its added tokens in texts.
  bool is_published() const { return std::holds_alternative<PretrainedTokenizer>(tokenizer_); }
  /// The highest id plus 1.
  int64_t size() const;
  bool has(int64_t id) const;
  /// The id of the token with these bytes; nothing if there is none.
  std::optional<int64_t> id(std::string_view token) const;
  /// The token in front of each document of a text: the one that a published tokenizer puts before
  /// texts (<s>), or <|endoftext|>; nothing if there is neither.
  std::optional<int64_t> boundary() const { return boundary_; }

  /// Whether the token ends a text. At first only <|endoftext|> does.
  bool is_end(int64_t id) const;
  const std::vector<int64_t>& ends() const { return ends_; }
  /// The tokens that end a text from now on. Error for an unknown id.
  void set_ends(std::vector<int64_t> ids);

  /// The ids of a text, without tokens around it.
  std::vector<int64_t> encode(std::string_view text) const;
  /// The same, but added tokens in the text are text, as a user's "<|im_end|>" should be.
  std::vector<int64_t> encode_plain(std::string_view text) const;
  /// The added tokens that encode() finds in texts and the tokenizer calls special; or the others.
  std::vector<std::string> added(bool special) const;
  /// The ids of encode(), after the tokens that a published tokenizer puts before texts.
  std::vector<int64_t> encode_prompt(std::string_view text) const;
  /// As ByteBpe::encode_beginning. For a published tokenizer that depends on the whole text it
  /// encodes nothing.
  size_t encode_beginning(std::string_view text, std::vector<int64_t>& ids) const;
  /// The bytes of these tokens, specials as text. A model's output need not be valid UTF-8. Error:
  /// an unknown id.
  std::string decode(std::span<const int64_t> ids) const;

 private:
  std::variant<ByteBpe, PretrainedTokenizer> tokenizer_;
  std::optional<int64_t> boundary_;
  std::vector<int64_t> ends_;
};

}  // namespace tern::datasets
