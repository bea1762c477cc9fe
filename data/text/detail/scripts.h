// Inside of data only: which script a letter is of.
#pragma once

#include <string_view>

namespace tern::data::detail {

/// "Latin", "Cyrillic", "Han", ...: of the block the letter stands in
/// (https://unicode.org/Public/UNIDATA/Blocks.txt); empty for what is in none of those known here.
std::string_view script_of(char32_t letter);

/// Whether the letter is of a script that puts no spaces between words: Chinese, Japanese, Thai,
/// Lao, Burmese, Khmer.
bool is_unspaced(char32_t letter);

}  // namespace tern::data::detail
