// Inside of data only: where words.h expects spaces, and the marks it sets where they are not so.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::data::detail {

/// Whether a space belongs before each of these tokens (none of which is marked); never before the
/// first.
std::vector<bool> default_spaces(std::span<const std::string> words);

/// Behind an apostrophe in English, in lower case: s re ve ll d m.
bool is_clitic(std::string_view word);

/// A token and whether its marks ask for a space before and after it.
struct MarkedWord {
  std::string_view word;
  std::optional<bool> before, after;
};
MarkedWord parse_marks(std::string_view token);

/// Which of two neighbours is marked: punctuation rather than words, so that words stay few.
enum class MarkPlace { before, after, none };
MarkPlace place_of_mark(std::string_view left, std::string_view right);

}  // namespace tern::data::detail
