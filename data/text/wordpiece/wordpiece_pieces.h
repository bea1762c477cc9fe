// How WordPiece writes special pieces and pieces inside of words, and how it cuts a word.
// Inside of data only.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets::detail {

/// Padding, unknown, begin, separator and mask.
inline constexpr std::array<std::string_view, 5> kSpecialPieces = {"[PAD]", "[UNK]", "[CLS]",
                                                                   "[SEP]", "[MASK]"};
inline constexpr std::string_view kContinued = "##";

struct WordPieceLimits {
  std::string_view continued;  ///< prefix of pieces inside of a word
  int64_t longest_word;        ///< in characters
  size_t longest_piece;        ///< in bytes
};

/// Cuts a word into the longest known pieces from the left; `find` gives the id of a piece. Returns
/// nothing if a piece is missing or the word is too long: the whole word is then unknown.
template <class Find>
std::optional<std::vector<int64_t>> longest_pieces(std::string_view word,
                                                   const WordPieceLimits& limits,
                                                   const Find& find) {
  const std::vector<std::string_view> letters = code_points(word);
  if (std::ssize(letters) > limits.longest_word) return std::nullopt;
  std::vector<int64_t> ids;
  std::string piece;
  for (size_t begin = 0; begin < letters.size();) {
    size_t end = std::min(letters.size(), begin + limits.longest_piece);
    for (; end > begin; --end) {
      const char* from = letters[begin].data();
      const char* to = letters[end - 1].data() + letters[end - 1].size();
      if (static_cast<size_t>(to - from) > limits.longest_piece) continue;
      piece.assign(begin > 0 ? limits.continued : "").append(from, to);
      if (const std::optional<int64_t> id = find(piece)) {
        ids.push_back(*id);
        break;
      }
    }
    if (end == begin) return std::nullopt;
    begin = end;
  }
  return ids;
}

}  // namespace tern::datasets::detail
