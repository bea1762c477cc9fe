// Decides where words.h expects spaces, and handles the marks where a text differs.
// Inside of data only.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::datasets::detail {

/// Whether a space belongs before each of these unmarked tokens; never before the first.
std::vector<bool> default_spaces(std::span<const std::string> words);

/// English endings after an apostrophe, in lower case: s re ve ll d m.
bool is_clitic(std::string_view word);

/// A token, and whether its marks request a space before and after it.
struct MarkedWord {
  std::string_view word;
  std::optional<bool> before, after;
};
MarkedWord parse_marks(std::string_view token);

/// Which of two neighbours gets the mark: punctuation if possible, so that fewer words are marked.
enum class MarkPlace { before, after, none };
MarkPlace place_of_mark(std::string_view left, std::string_view right);

}  // namespace tern::datasets::detail
