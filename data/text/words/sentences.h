// Splits text into sentences.
#pragma once

#include <string_view>
#include <vector>

namespace tern::datasets {

/// The nonempty sentences of a text, as views without surrounding white space. A sentence ends at .
/// ! ? … ؟ । and any closing quotes and brackets, if white space and a possible beginning follow
/// (not a small letter or a closing mark). It always ends at 。！？. A full stop after a single letter
/// or a common abbreviation ("Mr.", "z. B.") does not end it.
std::vector<std::string_view> split_sentences(std::string_view text);

}  // namespace tern::datasets
