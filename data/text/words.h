// Words and punctuation as tokens, and text from tokens again. Made for languages with spaces; the
// rules know French elision and English clitics.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::data {

/// Cuts text into words and punctuation marks:
///   "Don't panic (l'homme's 1,000.50 e-mails)..." gives
///   Don't panic ( l' homme 's 1,000.50 e-mails ) ...
/// - letters, digits and _ make words; hyphens between and behind them stay, and so do . , :
///   between digits and . between letters;
/// - after an apostrophe a new token begins if what is before is elided in French (l' d' qu' ...),
///   and before it if 's 're 've 'll 'd 'm follow; else the apostrophe stays inside;
/// - of other characters, each run of the same one is a token.
std::vector<std::string> split_words(std::string_view text);

/// The text of tokens as split_words makes them: no space before closing marks, after opening ones
/// and at elisions; straight quotes open and close in turn. What split_words cannot see is not
/// restored: runs of spaces, and the space that French puts before ! ? : ;.
std::string join_words(std::span<const std::string> words);

}  // namespace tern::data
