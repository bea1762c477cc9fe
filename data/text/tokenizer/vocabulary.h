// Numbers words. Every vocabulary of tern begins with the same four special tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tern::datasets {

inline constexpr int64_t kUnknownId = 0;  ///< <unk>, an unknown word
inline constexpr int64_t kPadId = 1;      ///< <pad>, after the end of a shorter sentence
inline constexpr int64_t kBeginId = 2;    ///< <bos>
inline constexpr int64_t kEndId = 3;      ///< <eos>
inline constexpr int64_t kSpecials = 4;

/// The name of a special token. REQUIRES: 0 <= id < kSpecials.
std::string_view special_name(int64_t id);

/// The number of occurrences of each word.
using WordCounts = std::unordered_map<std::string, int64_t>;

struct VocabularyOptions {
  int64_t min_freq = 1;  ///< rarer words are unknown
  int64_t max_size = 0;  ///< largest number of tokens, with special ones; 0: no limit
};

class Vocabulary {
 public:
  /// Only the special tokens.
  Vocabulary() = default;
  /// The special tokens, then the words by falling frequency, and equals in the order of their
  /// bytes. A word that looks like a special token is left out and therefore unknown.
  Vocabulary(const WordCounts& counts, const VocabularyOptions& options);
  /// The special tokens, then `words`. Error: a duplicate, empty or invalid (not UTF-8) word, or
  /// one that looks like a special token.
  explicit Vocabulary(std::vector<std::string> words);

  int64_t size() const { return kSpecials + static_cast<int64_t>(words_.size()); }
  /// kUnknownId for unknown words. Never another special token, whatever the text contains.
  int64_t id(std::string_view word) const;
  std::vector<int64_t> ids(std::span<const std::string> words) const;
  /// A word or the name of a special token. Error: an unknown id.
  std::string_view word(int64_t id) const;
  /// The words without special tokens.
  const std::vector<std::string>& words() const { return words_; }

  /// Writes JSON with a checksum, completely or not at all.
  void save(const std::string& path) const;
  /// IoError if the file is damaged, of another kind or from a later version.
  static Vocabulary load(const std::string& path);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::vector<std::string> words_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
};

}  // namespace tern::datasets
