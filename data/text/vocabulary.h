// Numbers for words. Every vocabulary of tern begins with the same four special tokens.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tern::data {

inline constexpr int64_t kUnknownId = 0;  ///< <unk>, a word that is not in the vocabulary
inline constexpr int64_t kPadId = 1;      ///< <pad>, behind the end of a shorter sentence
inline constexpr int64_t kBeginId = 2;    ///< <bos>
inline constexpr int64_t kEndId = 3;      ///< <eos>
inline constexpr int64_t kSpecials = 4;

/// How a special token is shown. REQUIRES: 0 <= id < kSpecials.
std::string_view special_name(int64_t id);

/// How often each word occurs.
using WordCounts = std::unordered_map<std::string, int64_t>;

struct VocabularyOptions {
  int64_t min_freq = 1;  ///< words that occur less often are unknown
  int64_t max_size = 0;  ///< at most so many tokens, specials included; 0: no limit
};

class Vocabulary {
 public:
  /// The special tokens alone.
  Vocabulary() = default;
  /// The specials, then the words by falling frequency, and by their bytes where that is equal.
  /// A word that is spelt like a special token is left out, and so unknown.
  Vocabulary(const WordCounts& counts, const VocabularyOptions& options);
  /// The specials, then these. Error: a word twice, empty, spelt like a special, or not UTF-8.
  explicit Vocabulary(std::vector<std::string> words);

  int64_t size() const { return kSpecials + static_cast<int64_t>(words_.size()); }
  /// kUnknownId if the word is not there. Never another special token, whatever the text says.
  int64_t id(std::string_view word) const;
  std::vector<int64_t> ids(std::span<const std::string> words) const;
  /// A word, or the name of a special token. Error if there is no such id.
  std::string_view word(int64_t id) const;
  /// Without the specials.
  const std::vector<std::string>& words() const { return words_; }

  /// As JSON with a checksum, written whole or not at all.
  void save(const std::string& path) const;
  /// IoError if the file is damaged, something else, or of a later version.
  static Vocabulary load(const std::string& path);

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>()(s); }
  };
  std::vector<std::string> words_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> ids_;
};

}  // namespace tern::data
