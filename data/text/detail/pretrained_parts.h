// Inside of data only: the parts of tokenizer.json as functions. Each reader throws Error with the
// name of what is not covered, and nlohmann's exceptions where a key is missing or of another type.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tern::data::detail {

/// A part of a text between added tokens, as it is normalised and cut into smaller ones. Texts are
/// valid UTF-8.
struct Fragment {
  std::string text;
  /// So many bytes at its beginning stem from the first character of the whole text, or were put
  /// before it.
  size_t first = 0;
};
/// A part of it.
Fragment fragment_of(const Fragment& whole, size_t begin, size_t size);

using Normalizer = std::function<Fragment(Fragment)>;
Normalizer read_normalizer(const nlohmann::json& part);

using PreTokenizer = std::function<std::vector<Fragment>(std::vector<Fragment>)>;
PreTokenizer read_pre_tokenizer(const nlohmann::json& part);

/// \w of regular expressions: letters, marks, digits, letter numbers, connectors, (non-)joiners,
/// circled letters.
bool is_regex_word(char32_t c);

/// Tokens to the pieces of text that are put together.
using Decoder = std::function<std::vector<std::string>(std::vector<std::string>)>;
Decoder read_decoder(const nlohmann::json& part);

/// What a pattern finds: literal text, or one of the regular expressions that are known.
struct Match {
  size_t begin, end;
};
using Matcher = std::function<std::vector<Match>(std::string_view)>;
Matcher read_pattern(const nlohmann::json& pattern);
Fragment replace_matches(const Fragment& text, const Matcher& find, std::string_view by);

/// The model: its tokens by id ("" where an id is of none), and ids of a fragment.
struct PretrainedModel {
  std::vector<std::string> tokens;
  std::unordered_map<std::string, int64_t> ids;
  std::function<std::vector<int64_t>(std::string_view)> encode;
};
PretrainedModel read_model(const nlohmann::json& part);

/// What a post-processor puts around one text or two: ids, or the text A or B.
struct TemplatePiece {
  enum class Kind { special, first, second } kind;
  int64_t segment;
  std::vector<int64_t> ids;
};
struct PretrainedTemplate {
  std::vector<TemplatePiece> single, pair;
};
PretrainedTemplate read_template(const nlohmann::json& part);

/// The name of a part's kind.
std::string type_of(const nlohmann::json& part);
/// Reads the parts of a "Sequence", or the one that it is.
void for_each_part(const nlohmann::json& part, const char* list,
                   const std::function<void(const nlohmann::json&)>& read);

/// Bytes as text: each longest part that begins a character but is none becomes U+FFFD, as the
/// standard of Unicode (section 3.9) has it.
std::string lossy_utf8(std::string_view bytes);

}  // namespace tern::data::detail
