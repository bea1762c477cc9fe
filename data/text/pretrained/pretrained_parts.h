// The parts of tokenizer.json as functions. Readers throw Error with the name of an unsupported
// part, or with the place of a member that is missing or has another type. They read or ignore each
// member that they know; unread members are unknown. Inside of data only.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tern/core/io/json_value.h"

namespace tern::datasets::detail {

/// A part of a text between added tokens, which is normalised and cut into smaller ones. Valid
/// UTF-8.
struct Fragment {
  std::string text;
  /// How many bytes at its beginning come from the first character of the whole text, or were added
  /// before it.
  size_t first = 0;
};
/// Error if a normalizer or decoder makes a text of more bytes than kMostNormalBytes.
void check_length(int64_t bytes);
/// A part of a fragment.
Fragment fragment_of(const Fragment& whole, size_t begin, size_t size);

using Normalizer = std::function<Fragment(Fragment)>;
Normalizer read_normalizer(const JsonValue& part);

using PreTokenizer = std::function<std::vector<Fragment>(std::vector<Fragment>)>;
PreTokenizer read_pre_tokenizer(const JsonValue& part);
/// How a normalizer and pre-tokenizer cut at a line end that no white space follows.
struct LineCuts {
  bool any = false;           ///< at none: the chunks depend on the whole text
  bool leaves_last = false;   ///< the line end is a chunk of its own, as by GPT-2's pattern
  bool digits_apart = false;  ///< before that, numbers are cut from other text
};
LineCuts read_line_cuts(const JsonValue& normalizer, const JsonValue& pre_tokenizer);

/// The regular expression that cuts the texts of Qwen 2.
std::string qwen2_pattern();

/// Characters that match \w in regular expressions: letters, marks, digits, letter numbers,
/// connectors, (non-)joiners and circled letters.
bool is_regex_word(char32_t c);

/// Converts tokens to the pieces of text that are then joined.
using Decoder = std::function<std::vector<std::string>(std::vector<std::string>)>;
Decoder read_decoder(const JsonValue& part);
/// PretrainedTokenizer::bytes() for a token of a model with this decoder.
using TokenBytes = std::function<std::string(const std::string& token)>;
TokenBytes read_token_bytes(const JsonValue& decoder);

/// A match of a pattern: literal text, or one of the known regular expressions.
struct Match {
  size_t begin, end;
};
using Matcher = std::function<std::vector<Match>(std::string_view)>;
Matcher read_pattern(const JsonValue& pattern);
Matcher literal_pattern(const std::string& literal);
Fragment replace_matches(const Fragment& text, const Matcher& find, std::string_view by);

using TokenIds = std::unordered_map<std::string, int64_t>;
/// The model: its tokens by id ("" for an unused id), and a function that gives the ids of a text,
/// which shares `ids`.
struct PretrainedModel {
  std::vector<std::string> tokens;
  std::shared_ptr<const TokenIds> ids;
  std::function<std::vector<int64_t>(std::string_view)> encode;
};
PretrainedModel read_model(const JsonValue& part);

/// An element of a post-processor's template: ids, or the text A or B.
struct TemplatePiece {
  enum class Kind { special, first, second } kind;
  int64_t segment;
  std::vector<int64_t> ids;
};
struct PretrainedTemplate {
  std::vector<TemplatePiece> single, pair;
};
PretrainedTemplate read_template(const JsonValue& part);

/// The type name of a part.
std::string type_of(const JsonValue& part);
/// Reads the parts of a "Sequence", or a single part.
void for_each_part(const JsonValue& part, const char* list,
                   const std::function<void(const JsonValue&)>& read);

/// Bytes as text. Each longest incomplete beginning of a character becomes U+FFFD, as in the
/// Unicode standard (section 3.9).
std::string lossy_utf8(std::string_view bytes);

}  // namespace tern::datasets::detail
