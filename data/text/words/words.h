// Splits text into words and punctuation, and joins them again. The rules know French elision and
// English clitics. Scripts without spaces between words are split into characters.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::datasets {

/// Splits text into words and punctuation marks, in linear time:
///   "Don't panic (l'homme's 1,000.50 e-mails)..." gives
///   Don't panic ( l' homme 's 1,000.50 e-mails ) ...
/// - Letters, digits and _ form words. Hyphens inside and after them belong to the word, as do . ,
///   : between digits, . between letters, and invisible joiners.
/// - A sign before a number belongs to it unless a word precedes: "at -5" gives at -5.
/// - After an elided French word (l' d' qu' ...) the apostrophe ends the token. Before 's 're 've
///   'll 'd 'm it begins a new one. Otherwise it stays inside the word.
/// - URLs and mail addresses are tokens, without marks at their ends.
/// - Chinese, Japanese, Thai, Lao, Burmese and Khmer are split into graphemes.
/// - Other graphemes (marks, whole emoji, flags): a run of the same one is a token.
std::vector<std::string> split_words(std::string_view text);

/// The same tokens, marked where join_words would add a space that the text lacks (￭, as in
/// OpenNMT's tokenizer) or lack one that the text has (▁). The mark stands in front of the token
/// after that place, or behind the token before it if only that one is punctuation.
///   "Où ? 5 × 6=30" gives Où ▁? 5 ▁×▁ 6 = 30
/// So join_words(mark_words(s)) == s for any valid UTF-8 without runs of spaces, spaces at its ends
/// and these two characters.
std::vector<std::string> mark_words(std::string_view text);

/// The token without the marks of mark_words.
std::string_view without_marks(std::string_view token);

/// The text of tokens from split_words or mark_words. Unmarked places have no space before closing
/// marks, after opening marks, at elisions, at full-width marks, between characters of scripts
/// without spaces, at signs between numbers, after # and @, and before ++. Straight quotes open and
/// close in turn.
std::string join_words(std::span<const std::string> tokens);

}  // namespace tern::datasets
