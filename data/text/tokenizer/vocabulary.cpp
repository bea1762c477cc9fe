// Chooses the most frequent words, and converts words to ids and back.
#include "tern/data/text/tokenizer/vocabulary.h"

#include <algorithm>
#include <array>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/data/text/tokenizer/token_file.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets {
namespace {

constexpr std::array<std::string_view, kSpecials> kNames = {"<unk>", "<pad>", "<bos>", "<eos>"};

bool is_special(std::string_view word) {
  return std::find(kNames.begin(), kNames.end(), word) != kNames.end();
}

std::vector<std::string> most_frequent(const WordCounts& counts, const VocabularyOptions& options) {
  check(options.min_freq >= 1, "Vocabulary: min_freq is {}; at least 1", options.min_freq);
  check(options.max_size == 0 || options.max_size > kSpecials,
        "Vocabulary: max_size is {}; the {} special tokens count too, 0 is no limit",
        options.max_size, kSpecials);
  std::vector<std::pair<std::string, int64_t>> kept;
  for (const auto& [word, count] : counts)
    if (count >= options.min_freq && !is_special(word)) kept.emplace_back(word, count);
  std::sort(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (options.max_size > 0)
    kept.resize(std::min(kept.size(), static_cast<size_t>(options.max_size - kSpecials)));
  std::vector<std::string> words;
  for (auto& [word, count] : kept) words.push_back(std::move(word));
  return words;
}

}  // namespace

std::string_view special_name(int64_t id) {
  check(id >= 0 && id < kSpecials, "special_name: there is no special token {}", id);
  return kNames[id];
}

Vocabulary::Vocabulary(const WordCounts& counts, const VocabularyOptions& options)
    : Vocabulary(most_frequent(counts, options)) {}

Vocabulary::Vocabulary(std::vector<std::string> words) : words_(std::move(words)) {
  ids_.reserve(words_.size());
  for (const std::string& word : words_) {
    check(!word.empty() && !find_invalid_utf8(word), "Vocabulary: a word is empty or not UTF-8");
    check(!is_special(word), "Vocabulary: '{}' is a special token", word);
    const int64_t id = kSpecials + static_cast<int64_t>(ids_.size());
    check(ids_.emplace(word, id).second, "Vocabulary: the word '{}' appears twice", word);
  }
}

int64_t Vocabulary::id(std::string_view word) const {
  const auto found = ids_.find(word);
  return found == ids_.end() ? kUnknownId : found->second;
}

std::vector<int64_t> Vocabulary::ids(std::span<const std::string> words) const {
  std::vector<int64_t> out;
  out.reserve(words.size());
  for (const std::string& word : words) out.push_back(id(word));
  return out;
}

std::string_view Vocabulary::word(int64_t id) const {
  check(id >= 0 && id < size(), "Vocabulary: there is no token {}, the vocabulary has {}", id,
        size());
  return id < kSpecials ? special_name(id) : words_[id - kSpecials];
}

void Vocabulary::save(const std::string& path) const {
  detail::write_token_file(path, "tern-vocabulary", {.words = words_});
}

Vocabulary Vocabulary::load(const std::string& path) {
  Vocabulary out;
  detail::read_token_file(path, "tern-vocabulary", [&](detail::TokenTable& table) {
    out = Vocabulary(std::move(table.words));
  });
  return out;
}

}  // namespace tern::datasets
