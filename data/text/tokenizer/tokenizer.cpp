// Learns, encodes and decodes by words, by spaces or by BPE. Matches words to the vocabulary also
// if their marks differ.
#include "tern/data/text/tokenizer/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tern/core/base/error.h"
#include "tern/data/text/tokenizer/token_file.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/words/words.h"

namespace tern::datasets {
namespace {

constexpr std::array<std::string_view, 3> kUnitNames = {"words", "spaces", "bpe"};

TokenUnit unit_named(const std::string& name) {
  const auto found = std::find(kUnitNames.begin(), kUnitNames.end(), name);
  check(found != kUnitNames.end(), "there is no unit '{}'", name);
  return static_cast<TokenUnit>(found - kUnitNames.begin());
}

std::vector<std::string> cut_text(std::string_view text, TokenUnit unit) {
  if (unit == TokenUnit::words) return mark_words(text);
  const std::vector<std::string_view> parts = split_spaces(text);
  return {parts.begin(), parts.end()};
}

/// Counts a marked word that is too rare for the vocabulary as the word without its marks.
void drop_rare_marks(WordCounts& counts, int64_t min_freq) {
  WordCounts bare;
  for (auto it = counts.begin(); it != counts.end();) {
    const std::string_view word = without_marks(it->first);
    if (it->second >= min_freq || word.size() == it->first.size()) {
      ++it;
    } else {
      bare[std::string(word)] += it->second;
      it = counts.erase(it);
    }
  }
  for (const auto& [word, count] : bare) counts[word] += count;
}

/// Looks a marked word up without its marks, or with others: a text that is already split has
/// spaces everywhere.
int64_t id_marked_otherwise(const Vocabulary& vocabulary, std::string_view word) {
  const std::string bare(without_marks(word));
  int64_t id = kUnknownId;
  for (const char* before : {"", "▁", "￭"})
    for (const char* after : {"", "▁", "￭"})
      if (id == kUnknownId) id = vocabulary.id(before + bare + after);
  return id;
}

std::vector<int64_t> word_ids(const Vocabulary& vocabulary, std::span<const std::string> words) {
  std::vector<int64_t> ids = vocabulary.ids(words);
  for (size_t i = 0; i < words.size(); ++i)
    if (ids[i] == kUnknownId) ids[i] = id_marked_otherwise(vocabulary, words[i]);
  return ids;
}

}  // namespace

Tokenizer::Tokenizer(TokenUnit unit, const NormalizeOptions& normalize, Vocabulary vocabulary)
    : unit_(unit), normalize_(normalize), table_(std::move(vocabulary)) {
  check(unit != TokenUnit::bpe, "Tokenizer: the unit bpe needs a Bpe, not a Vocabulary");
}

Tokenizer::Tokenizer(const NormalizeOptions& normalize, Bpe bpe)
    : unit_(TokenUnit::bpe), normalize_(normalize), table_(std::move(bpe)) {}

Tokenizer Tokenizer::learn(std::span<const std::string> texts, const TokenizerOptions& options) {
  if (options.unit == TokenUnit::bpe) {
    std::vector<std::string> normal;
    normal.reserve(texts.size());
    for (const std::string& text : texts) normal.push_back(normalize(text, options.normalize));
    return {options.normalize, Bpe::learn(normal, options.bpe)};
  }
  WordCounts counts;
  for (const std::string& text : texts)
    for (const std::string& word : cut_text(normalize(text, options.normalize), options.unit))
      ++counts[word];
  if (options.unit == TokenUnit::words) drop_rare_marks(counts, options.vocabulary.min_freq);
  return {options.unit, options.normalize, Vocabulary(counts, options.vocabulary)};
}

int64_t Tokenizer::size() const {
  return std::visit([](const auto& table) { return table.size(); }, table_);
}

std::vector<int64_t> Tokenizer::encode(std::string_view text) const {
  const std::string normal = normalize(text, normalize_);
  if (const Bpe* bpe = std::get_if<Bpe>(&table_)) return bpe->encode(normal);
  const auto& vocabulary = std::get<Vocabulary>(table_);
  const std::vector<std::string> words = cut_text(normal, unit_);
  return unit_ == TokenUnit::words ? word_ids(vocabulary, words) : vocabulary.ids(words);
}

std::vector<int64_t> Tokenizer::encode(std::string_view text, double dropout, Rng random) const {
  const Bpe* bpe = std::get_if<Bpe>(&table_);
  check(bpe, "Tokenizer::encode: BPE dropout needs the unit bpe; this tokenizer's is {}",
        kUnitNames[static_cast<size_t>(unit_)]);
  return bpe->encode(normalize(text, normalize_), dropout, random);
}

std::string Tokenizer::decode(std::span<const int64_t> ids) const {
  std::vector<int64_t> shown;
  for (int64_t id : ids) {
    if (id == kEndId) break;
    if (id != kPadId && id != kBeginId) shown.push_back(id);
  }
  if (const Bpe* bpe = std::get_if<Bpe>(&table_)) return replace_invalid_utf8(bpe->decode(shown));
  std::vector<std::string> words;
  for (int64_t id : shown) words.emplace_back(std::get<Vocabulary>(table_).word(id));
  return unit_ == TokenUnit::words ? join_words(words) : fmt::format("{}", fmt::join(words, " "));
}

std::string Tokenizer::piece(int64_t id) const {
  if (const Bpe* bpe = std::get_if<Bpe>(&table_)) return bpe->piece(id);
  return std::string(std::get<Vocabulary>(table_).word(id));
}

void Tokenizer::save(const std::string& path) const {
  detail::TokenTable table{.unit = std::string(kUnitNames[static_cast<size_t>(unit_)]),
                           .normalize = normalize_};
  if (const Bpe* bpe = std::get_if<Bpe>(&table_))
    table.merges = bpe->merges();
  else
    table.words = std::get<Vocabulary>(table_).words();
  detail::write_token_file(path, "tern-tokenizer", table);
}

Tokenizer Tokenizer::load(const std::string& path) {
  Tokenizer out;
  detail::read_token_file(path, "tern-tokenizer", [&](detail::TokenTable& table) {
    const TokenUnit unit = unit_named(table.unit);
    if (unit == TokenUnit::bpe)
      out = Tokenizer(table.normalize, Bpe(std::move(table.merges)));
    else
      out = Tokenizer(unit, table.normalize, Vocabulary(std::move(table.words)));
  });
  return out;
}

}  // namespace tern::datasets
