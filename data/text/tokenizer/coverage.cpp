// Collects the scripts and letter case of a tokenizer's words, and reports what a line has beyond
// them.
#include "tern/data/text/tokenizer/coverage.h"

#include <fmt/format.h>

#include <utility>

#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/words/normalize.h"
#include "tern/data/text/words/scripts.h"

namespace tern::datasets {
namespace {

constexpr int64_t kEnough = 200;  // words or merges that suffice to judge case and script

/// Counts of a text's letters. Words in capitals show as two capitals in a row and no small
/// letters.
struct Letters {
  int64_t capitals = 0, small = 0, paired = 0;  // paired: capitals after a capital
  std::set<std::string_view> scripts;

  explicit Letters(std::string_view text) {
    bool before = false;
    for (size_t at = 0; at < text.size();) {
      const char32_t c = next_code_point(text, at);
      const bool capital = is_capital(c);
      capitals += capital;
      small += is_small(c);
      paired += capital && before;
      before = capital;
      if (classify(c) != CharacterClass::letter) continue;
      if (const std::string_view script = detail::script_of(c); !script.empty())
        scripts.insert(script);
    }
  }
};

bool is_word(std::string_view token) {
  for (size_t at = 0; at < token.size();) {
    const CharacterClass kind = classify(next_code_point(token, at));
    if (kind == CharacterClass::letter || kind == CharacterClass::digit) return true;
  }
  return false;
}

}  // namespace

std::string Unseen::summary() const {
  std::vector<std::string> parts;
  if (mostly_unknown()) parts.push_back(fmt::format("{} of {} words are unknown", unknown, words));
  constexpr const char* kNever = "that the training texts did not have";
  if (!scripts.empty())
    parts.push_back(fmt::format("letters of a script ({}) {}", fmt::join(scripts, ", "), kNever));
  if (capitals) parts.push_back(fmt::format("capital letters {}", kNever));
  if (capital_words) parts.push_back(fmt::format("words in capitals {}", kNever));
  if (small_letters) parts.push_back(fmt::format("small letters {}", kNever));
  return fmt::format("{}", fmt::join(parts, "; "));
}

TextCoverage::TextCoverage(Tokenizer tokenizer) : tokenizer_(std::move(tokenizer)) {
  // Single bytes do not show what the text contained.
  const int64_t first = kSpecials + (tokenizer_.unit() == TokenUnit::bpe ? 256 : 0);
  for (int64_t id = first; id < tokenizer_.size(); ++id)
    add(tokenizer_.decode(std::vector<int64_t>{id}));
  judges_ = tokenizer_.size() - first >= kEnough;
}

void TextCoverage::add(std::string_view seen) {
  const Letters letters(seen);
  scripts_.insert(letters.scripts.begin(), letters.scripts.end());
  capitals_ = capitals_ || letters.capitals > 0;
  capital_words_ = capital_words_ || (letters.paired > 0 && letters.small == 0);
  small_ = small_ || letters.small > 0;
}

Unseen TextCoverage::look(std::string_view line) const {
  Unseen out;
  for (int64_t id : tokenizer_.encode(line)) {
    const bool unknown = id == kUnknownId;
    out.unknown += unknown;
    out.words += unknown || is_word(tokenizer_.decode(std::vector<int64_t>{id}));
  }
  if (!judges_) return out;
  const Letters letters(normalize(line, tokenizer_.normalize_options()));
  for (std::string_view script : letters.scripts)
    if (!scripts_.contains(script)) out.scripts.emplace_back(script);
  if (!out.scripts.empty()) return out;  // the case of unknown scripts does not matter
  out.capitals = letters.capitals > 0 && !capitals_;
  out.small_letters = letters.small > 0 && !small_;
  out.capital_words =
      !out.capitals && !capital_words_ && letters.paired > letters.small && letters.paired >= 3;
  return out;
}

}  // namespace tern::datasets
