// Inside of data only: what both kinds of byte-pair encoding are made of.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tern::data::detail {

/// Pairs of ids that are put together, in the order in which they go first, and what they become.
class MergeTable {
 public:
  /// The next pair. False, and nothing is added, if it is there already.
  bool add(int64_t left, int64_t right, int64_t id);
  int64_t size() const { return static_cast<int64_t>(merged_.size()); }
  /// Puts neighbours together, always those of the first pair in the order, and of equal ones the
  /// leftmost, until no pair is left: O(n log n), in 24 bytes an id; in 8 while there are long runs
  /// of one pair. Error where there are 2^31.
  std::vector<int64_t> merge(std::vector<int64_t> ids) const;

 private:
  struct Merged {
    uint32_t rank;
    int64_t id;
  };
  const Merged* find(int64_t left, int64_t right) const;
  void merge_runs(std::vector<int64_t>& ids) const;
  std::unordered_map<uint64_t, Merged> merged_;
  std::vector<bool> operands_;  // ids that are put together
  bool ordered_ = true;         // what a pair becomes is put together by later pairs alone
};

/// The ids of chunks that were seen before. Safe to use from several threads.
class ChunkCache {
 public:
  /// Adds the ids of all chunks to `ids`; make(chunk) gives those of a new one.
  template <class Make>
  void append(const std::vector<std::string_view>& chunks, std::vector<int64_t>& ids, Make make) {
    const std::lock_guard lock(mutex_);
    for (std::string_view chunk : chunks) {
      if (chunk.size() > kLongestKept) {
        const std::vector<int64_t> made = make(chunk);
        ids.insert(ids.end(), made.begin(), made.end());
        continue;
      }
      if (cache_.size() >= kMostChunks) cache_.clear();
      const auto [found, fresh] = cache_.try_emplace(std::string(chunk));
      if (fresh) found->second = make(chunk);
      ids.insert(ids.end(), found->second.begin(), found->second.end());
    }
  }

 private:
  static constexpr size_t kMostChunks = 1 << 17, kLongestKept = 1 << 8;
  std::mutex mutex_;
  std::unordered_map<std::string, std::vector<int64_t>> cache_;
};

/// Bytes for people: the space as ▁, bytes that are no character of their own as <E9>.
std::string shown_piece(std::string_view bytes);

}  // namespace tern::data::detail
