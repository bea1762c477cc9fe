// Sentences of running text.
#pragma once

#include <string_view>
#include <vector>

namespace tern::data {

/// The sentences of a text, views of it without the white space around them; none is empty. One
/// ends at . ! ? … ؟ । with the quotes and brackets that close behind it, where white space follows
/// and then what can begin a sentence (no small letter, no closing mark); and at 。！？ whatever
/// follows. A full stop behind a single letter or a common abbreviation ("Mr.", "z. B.") ends none.
std::vector<std::string_view> split_sentences(std::string_view text);

}  // namespace tern::data
