// Replaces invalid UTF-8, then applies NFC, lower case, single spaces and d2l's rule in this order.
#include "tern/data/text/words/normalize.h"

#include <fmt/format.h>

#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets {
namespace {

std::string space_punctuation(std::string_view text) {
  std::string out;
  out.reserve(text.size() + 4);
  for (char c : text) {
    const bool mark = c == ',' || c == '.' || c == '!' || c == '?';
    if (mark && !out.empty() && out.back() != ' ') out += ' ';
    out += c;
  }
  return out;
}

}  // namespace

std::string normalize(std::string_view text, const NormalizeOptions& options) {
  std::string out = replace_invalid_utf8(text);
  if (options.nfc) out = nfc(out);
  if (options.lower) out = lower_case(out);
  if (options.spaces) out = fmt::format("{}", fmt::join(split_spaces(out), " "));
  if (options.d2l) out = space_punctuation(out);
  return out;
}

}  // namespace tern::datasets
