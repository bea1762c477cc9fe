// Words and punctuation as tokens, and text from tokens again. The rules know French elision and
// English clitics; scripts without spaces between words are cut into characters.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::data {

/// Cuts text into words and punctuation marks, in time linear in its length:
///   "Don't panic (l'homme's 1,000.50 e-mails)..." gives
///   Don't panic ( l' homme 's 1,000.50 e-mails ) ...
/// - letters, digits and _ make words; hyphens between and behind them stay, and so do . , :
///   between digits and . between letters, and what joins letters without being seen;
/// - a sign before a number is part of it where no word is before: "at -5" gives at -5;
/// - after an apostrophe a new token begins if what is before is elided in French (l' d' qu' ...),
///   and before it if 's 're 've 'll 'd 'm follow; else the apostrophe stays inside;
/// - URLs and mail addresses are tokens; marks at their ends are not part of them;
/// - Chinese, Japanese, Thai, Lao, Burmese and Khmer are cut into graphemes;
/// - of other graphemes (marks, emoji with all their parts, flags), each run of the same one is a
///   token.
std::vector<std::string> split_words(std::string_view text);

/// The same tokens, with marks where join_words would set a space that the text has not (￭, as the
/// tokenizer of OpenNMT has it), or none where it has one (▁): in front of the token behind the
/// place, or at the end of the one before it where that is punctuation and the other is a word.
///   "Où ? 5 × 6=30" gives Où ▁? 5 ▁×▁ 6 = 30
/// So join_words(mark_words(s)) == s for any valid UTF-8 without runs of spaces, spaces at the ends
/// or those two characters themselves.
std::vector<std::string> mark_words(std::string_view text);

/// The token without marks of mark_words.
std::string_view without_marks(std::string_view token);

/// The text of tokens as split_words or mark_words make them. Where nothing is marked: no space
/// before closing marks, after opening ones and at elisions; none at full-width marks, between
/// characters of scripts without spaces, at signs between numbers, after # and @, before ++;
/// straight quotes open and close in turn.
std::string join_words(std::span<const std::string> tokens);

}  // namespace tern::data
