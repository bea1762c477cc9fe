// Learns a WordPiece vocabulary: the alphabet, then merges of frequent pairs (merge_learner.cpp).
#include <algorithm>
#include <unordered_map>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/data/text/bpe/merge_learner.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/tokenizer/vocabulary.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/wordpiece/wordpiece.h"
#include "tern/data/text/wordpiece/wordpiece_pieces.h"

namespace tern::datasets {
namespace {

using detail::kContinued;
using Counted = std::pair<std::string, int64_t>;

/// Sorts by code point, which is also the order of UTF-8 bytes.
std::vector<Counted> sorted(const WordCounts& counts) {
  std::vector<Counted> out(counts.begin(), counts.end());
  std::sort(out.begin(), out.end());
  return out;
}

/// The pieces so far, and their ids.
class Pieces {
 public:
  int32_t add(const std::string& piece) {
    const auto [at, is_new] = ids_.emplace(piece, static_cast<int32_t>(names_.size()));
    if (is_new) names_.push_back(piece);
    return at->second;
  }
  bool has(const std::string& piece) const { return ids_.contains(piece); }
  const std::string& name(int32_t id) const { return names_[static_cast<size_t>(id)]; }
  int64_t size() const { return std::ssize(names_); }
  std::vector<std::string> take() { return std::move(names_); }

 private:
  std::vector<std::string> names_;
  std::unordered_map<std::string, int32_t> ids_;
};

/// The `most` most frequent characters; among equals those with smaller code points.
std::vector<std::string> alphabet_of(const std::vector<Counted>& words, int64_t most) {
  WordCounts counts;
  for (const auto& [word, count] : words)
    for (std::string_view letter : code_points(word)) counts[std::string(letter)] += count;
  std::vector<Counted> letters = sorted(counts);
  std::stable_sort(letters.begin(), letters.end(),
                   [](const Counted& a, const Counted& b) { return a.second > b.second; });
  if (std::ssize(letters) > most) letters.resize(static_cast<size_t>(most));
  std::vector<std::string> out;
  for (Counted& letter : letters) out.push_back(std::move(letter.first));
  std::sort(out.begin(), out.end());
  return out;
}

/// Words as characters, with ## before all but the first. Drops words with other characters.
std::vector<detail::MergeChunk> chunks_of(const std::vector<Counted>& words, Pieces& pieces) {
  std::vector<std::pair<std::vector<std::string>, int64_t>> spelt;
  std::vector<std::string> inner;
  for (const auto& [word, count] : words) {
    std::vector<std::string> letters;
    for (std::string_view letter : code_points(word)) letters.emplace_back(letter);
    const bool known = std::all_of(letters.begin(), letters.end(),
                                   [&](const std::string& l) { return pieces.has(l); });
    if (!known) continue;
    for (size_t i = 1; i < letters.size(); ++i) {
      letters[i].insert(0, kContinued);
      inner.push_back(letters[i]);
    }
    spelt.emplace_back(std::move(letters), count);
  }
  std::sort(inner.begin(), inner.end());
  for (const std::string& piece : inner) pieces.add(piece);
  std::vector<detail::MergeChunk> chunks;
  for (const auto& [letters, count] : spelt) {
    detail::MergeChunk chunk{{}, count};
    for (const std::string& letter : letters) chunk.ids.push_back(pieces.add(letter));
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

}  // namespace

WordPiece WordPiece::learn(std::span<const std::string> texts, const WordPieceLearnOptions& o,
                           const WordPieceOptions& options) {
  constexpr int64_t kMost = 1 << 24;
  check(o.size >= std::ssize(detail::kSpecialPieces) && o.size <= kMost,
        "WordPiece::learn: the size is {}; it must be {} to {}", o.size,
        detail::kSpecialPieces.size(), kMost);
  check(o.min_count >= 1 && o.alphabet >= 0,
        "WordPiece::learn: min_count is {} and alphabet is {}; at least 1 and 0", o.min_count,
        o.alphabet);
  WordCounts counts;
  for (const std::string& text : texts)  // line by line, so that the words take little memory
    for_each_line(text, [&](std::string_view line) {
      for (std::string& word : basic_tokens(line, options)) ++counts[std::move(word)];
    });
  const std::vector<Counted> words = sorted(counts);
  Pieces pieces;
  for (std::string_view name : detail::kSpecialPieces) pieces.add(std::string(name));
  for (const std::string& letter : alphabet_of(words, o.alphabet)) pieces.add(letter);
  std::vector<detail::MergeChunk> chunks = chunks_of(words, pieces);
  check(pieces.size() <= o.size,
        "WordPiece::learn: the alphabet alone needs {} pieces, but the size is {}; raise the size "
        "or lower the alphabet ({})",
        pieces.size(), o.size, o.alphabet);
  detail::learn_merges(
      std::move(chunks), o.min_count, [&](int32_t left, int32_t right) -> std::optional<int32_t> {
        if (pieces.size() == o.size) return std::nullopt;
        return pieces.add(pieces.name(left) + pieces.name(right).substr(kContinued.size()));
      });
  return WordPiece(pieces.take(), options);
}

}  // namespace tern::datasets
