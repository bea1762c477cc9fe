// Cuts a Jinja template into text and the tokens of its tags. Inside of pretrained only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tern::pretrained::jinja {

struct Token {
  enum class Kind { text, print, tag, close, name, string, integer, real, symbol, end };
  Kind kind;
  std::string text;  ///< of text, names and symbols as written; of strings without escapes
  int line;
  int64_t integer = 0;
  double real = 0;
};

/// `{{` gives `print`, `{%` gives `tag`, and both end with `close`. White space beside tags goes as
/// with jinja2's trim_blocks and lstrip_blocks, which transformers sets. Error with the line: a tag
/// or string does not end, or there is an unknown character. The last token is `end`.
std::vector<Token> cut_template(std::string_view source);

/// Throws Error: "chat template, line 3: reason".
[[noreturn]] void fail_at(int line, const std::string& reason);

}  // namespace tern::pretrained::jinja
