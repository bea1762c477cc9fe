// All text is UTF-8 in std::string. These functions check it, iterate over code points, and give
// the Unicode properties that the text code needs. The tables are those of utf8proc's Unicode
// version. Tokenizers with another version differ where Unicode has added or changed characters
// (letters of new scripts, new emoji).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tern/core/base/utf8.h"

namespace tern::datasets {

/// Replaces invalid UTF-8 bytes.
inline constexpr char32_t kReplacementCharacter = 0xFFFD;

/// Of core/base/utf8.h: writing a code point, and the offset of the first invalid byte.
using tern::append_utf8;
using tern::find_invalid_utf8;

/// The code point at text[at]; advances `at`. An invalid byte gives one kReplacementCharacter.
/// REQUIRES: at < text.size().
char32_t next_code_point(std::string_view text, size_t& at);

/// The text with every invalid byte replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

/// Splits valid UTF-8 into its code points.
std::vector<std::string_view> code_points(std::string_view text);

/// Splits valid UTF-8 into what readers see as characters: extended grapheme clusters
/// (https://unicode.org/reports/tr29), a letter with its accents or a whole emoji.
std::vector<std::string_view> graphemes(std::string_view text);

/// The text's width in terminal columns: 2 for wide characters and emoji, 0 for combining marks and
/// non-printing characters.
int64_t display_width(std::string_view text);

/// The text if its width is at most `width` columns; else as many graphemes as fit before "…".
/// REQUIRES: width >= 1.
std::string cut_to_width(std::string_view text, int64_t width);

/// Whether any character belongs to a right-to-left script.
bool has_right_to_left(std::string_view text);

/// White space as in Python's str.split(), with line ends, no-break and typographic spaces.
bool is_space(char32_t code_point);

/// Coarse classes. Combining marks count as letters.
enum class CharacterClass { letter, digit, space, other };
CharacterClass classify(char32_t code_point);

/// Small and capital letters. Letters of scripts without case are neither.
bool is_small(char32_t code_point);
bool is_capital(char32_t code_point);

/// Invisible characters of the categories Cc, Cf and Co, line ends and tabs included.
bool is_control(char32_t code_point);
/// The categories P*.
bool is_punctuation(char32_t code_point);
/// The category Mn: accents without a width of their own.
bool is_nonspacing_mark(char32_t code_point);

/// The nonempty parts between white space, as views of `text`.
std::vector<std::string_view> split_spaces(std::string_view text);

/// The text without white space at its ends.
std::string_view strip_spaces(std::string_view text);

/// One line for a terminal: line ends, tabs and other white-space controls become single spaces
/// (none at the ends), other control characters and invalid bytes become U+FFFD.
std::string one_line(std::string_view text);

/// Normalization form C (https://unicode.org/reports/tr15): combines accents with their letters.
/// Error if the text is not valid UTF-8.
std::string nfc(std::string_view text);

/// Normalization form D: separates letters and accents. Error if the text is not valid UTF-8.
std::string nfd(std::string_view text);

/// Normalization forms KC and KD, which also replace variants of characters, such as ﬁ and ².
/// Error if the text is not valid UTF-8.
std::string nfkc(std::string_view text);
std::string nfkd(std::string_view text);

/// Lower case, letter by letter: a capital sigma never becomes final. Invalid bytes become U+FFFD.
std::string lower_letters(std::string_view text);

/// Lower case as Python's str.lower(), including final sigma and dotted capital I. Invalid bytes
/// become U+FFFD.
std::string lower_case(std::string_view text);

}  // namespace tern::datasets
