// The script of a letter. Inside of data only.
#pragma once

#include <string_view>

namespace tern::datasets::detail {

/// "Latin", "Cyrillic", "Han", ...: the script of the letter's block
/// (https://unicode.org/Public/UNIDATA/Blocks.txt); empty for other blocks.
std::string_view script_of(char32_t letter);

/// Whether the letter's script has no spaces between words: Chinese, Japanese, Thai, Lao, Burmese,
/// Khmer.
bool is_unspaced(char32_t letter);

}  // namespace tern::datasets::detail
