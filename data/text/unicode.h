// Text is UTF-8 in std::string everywhere. Here it is checked, walked by code points, and given
// the Unicode properties that the text code needs; the tables are utf8proc's, of the version of
// Unicode that it was built for. Other tokenizers may know a newer or an older one, and differ by
// what Unicode has added or changed between the two: letters of new scripts, new emoji.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tern::data {

/// What stands for bytes that are no UTF-8.
inline constexpr char32_t kReplacementCharacter = 0xFFFD;

/// Offset of the first byte that is not part of valid UTF-8 (overlong forms and surrogates are
/// not valid); nothing if all is well.
std::optional<size_t> find_invalid_utf8(std::string_view text);

/// The code point at text[at], and moves `at` behind it. An invalid byte is one
/// kReplacementCharacter. REQUIRES: at < text.size().
char32_t next_code_point(std::string_view text, size_t& at);

void append_utf8(std::string& to, char32_t code_point);

/// The text with every invalid byte as U+FFFD.
std::string replace_invalid_utf8(std::string_view text);

/// The parts of valid UTF-8 that are one code point each.
std::vector<std::string_view> code_points(std::string_view text);

/// The parts of valid UTF-8 that a reader takes for one character each: extended grapheme clusters
/// (https://unicode.org/reports/tr29), a letter with its accents or a whole emoji.
std::vector<std::string_view> graphemes(std::string_view text);

/// How many columns of a terminal the text takes: 2 for wide characters and emoji, 0 for marks that
/// combine and for what is not printed.
int64_t display_width(std::string_view text);

/// The text if it takes at most `width` columns, else as many graphemes as fit in front of "…".
/// REQUIRES: width >= 1.
std::string cut_to_width(std::string_view text, int64_t width);

/// Whether any character is of a script that runs from right to left.
bool has_right_to_left(std::string_view text);

/// White space as Python's str.split() sees it: line ends, no-break and typographic spaces too.
bool is_space(char32_t code_point);

/// Coarse classes; marks that combine with letters count as letters.
enum class CharacterClass { letter, digit, space, other };
CharacterClass classify(char32_t code_point);

/// Small and capital letters; those of scripts without case are neither.
bool is_small(char32_t code_point);
bool is_capital(char32_t code_point);

/// Characters that are not shown: of the categories Cc, Cf and Co, line ends and tabs included.
bool is_control(char32_t code_point);
/// Of the categories P*.
bool is_punctuation(char32_t code_point);
/// Of the category Mn: accents that take no room of their own.
bool is_nonspacing_mark(char32_t code_point);

/// The parts between runs of white space, none of them empty. They are views of `text`.
std::vector<std::string_view> split_spaces(std::string_view text);

/// Without white space at the ends.
std::string_view strip_spaces(std::string_view text);

/// As one line that a terminal shows as it is: line ends, tabs and other white space of control as
/// single spaces (none at the ends), other control characters and invalid bytes as U+FFFD.
std::string one_line(std::string_view text);

/// Normalization form C (https://unicode.org/reports/tr15): accents composed with their letters.
/// Error if the text is not valid UTF-8.
std::string nfc(std::string_view text);

/// Normalization form D: letters and their accents apart. Error if the text is not valid UTF-8.
std::string nfd(std::string_view text);

/// Lower case letter by letter: a capital sigma is never final. Invalid bytes become U+FFFD.
std::string lower_letters(std::string_view text);

/// Lower case as Python's str.lower() gives it: sigma at the end of a word and dotted capital I
/// included. Invalid bytes become U+FFFD.
std::string lower_case(std::string_view text);

}  // namespace tern::data
