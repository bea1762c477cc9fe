// Inside of data only: what BERT's tokenizer does to text, step by step.
#pragma once

#include <string>
#include <string_view>

namespace tern::data::detail {

struct BertCleaning {
  bool clean = true;      ///< without control characters, white space as ' '
  bool split_cjk = true;  ///< Chinese characters between spaces
};
std::string bert_clean(std::string_view text, const BertCleaning& options);

/// Canonically decomposed, without marks that take no room (Mn).
std::string without_accents(std::string_view text);

/// Punctuation, in ASCII more than Unicode's: $ + < = > ^ ` | ~ too.
bool is_bert_mark(char32_t c);

}  // namespace tern::data::detail
