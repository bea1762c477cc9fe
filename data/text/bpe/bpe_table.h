// The table of merges and the cache that all kinds of BPE share. Inside of data only.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tern::datasets::detail {

/// Pairs of ids to merge, in order of priority, and the resulting ids.
class MergeTable {
 public:
  /// Appends a pair. Returns false, without a change, if the pair exists.
  bool add(int64_t left, int64_t right, int64_t id);
  int64_t size() const { return static_cast<int64_t>(merged_.size()); }
  /// Merges neighbours until no pair is left: always the pair of highest priority, and among equals
  /// the leftmost. Takes O(n log n) time and 24 bytes per id, or 8 while there are long runs of one
  /// pair. Error for 2^31 ids. If `skip` is given, it is asked before each merge: a skipped pair
  /// waits until another pair has been merged. Ends when all pairs are skipped.
  std::vector<int64_t> merge(std::vector<int64_t> ids,
                             const std::function<bool()>& skip = {}) const;

 private:
  struct Merged {
    uint32_t rank;
    int64_t id;
  };
  const Merged* find(int64_t left, int64_t right) const;
  void merge_runs(std::vector<int64_t>& ids) const;
  std::unordered_map<uint64_t, Merged> merged_;
  std::vector<bool> operands_;  // ids that occur in pairs
  bool ordered_ = true;         // only later pairs merge the result of a pair
};

/// Replaces each pair of these neighbours, from left to right, by one id.
template <class Id>
void replace_pair(std::vector<Id>& ids, Id left, Id right, Id id) {
  size_t to = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const bool here = i + 1 < ids.size() && ids[i] == left && ids[i + 1] == right;
    ids[to++] = here ? id : ids[i];
    i += here;
  }
  ids.resize(to);
}

/// Caches the ids of chunks. Thread-safe.
class ChunkCache {
 public:
  /// Appends the ids of all chunks to `ids`; make(chunk) computes those of a new chunk.
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

/// Bytes for display: spaces as ▁, bytes that are not a whole character as <E9>.
std::string shown_piece(std::string_view bytes);

}  // namespace tern::datasets::detail
