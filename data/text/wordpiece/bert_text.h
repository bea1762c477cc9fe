// The steps of BERT's text normalisation. Inside of data only.
#pragma once

#include <string>
#include <string_view>

namespace tern::datasets::detail {

struct BertCleaning {
  bool clean = true;      ///< remove control characters; white space becomes ' '
  bool split_cjk = true;  ///< put spaces around Chinese characters
};
std::string bert_clean(std::string_view text, const BertCleaning& options);

/// The canonical decomposition without nonspacing marks (Mn).
std::string without_accents(std::string_view text);

/// Whether c is punctuation by Unicode, or one of the ASCII characters $ + < = > ^ ` | ~.
bool is_bert_mark(char32_t c);

}  // namespace tern::datasets::detail
