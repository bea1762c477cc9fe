// Keeps the counts of all pairs and a queue of the most frequent. A merge counts again only the
// chunks that contain it.
#include "tern/data/text/bpe/merge_learner.h"

#include <queue>
#include <unordered_map>
#include <utility>

#include "tern/data/text/bpe/bpe_table.h"

namespace tern::datasets::detail {
namespace {

// A pair of ids as one number, in the same order.
using Key = uint64_t;
Key key_of(int32_t left, int32_t right) {
  return static_cast<Key>(left) << 32 | static_cast<uint32_t>(right);
}

using Merge = std::pair<int32_t, int32_t>;

struct PairStatistics {
  int64_t count = 0;
  std::vector<int32_t> chunks;  // chunks with (past) occurrences; may repeat
  bool changed = false;         // the count differs from the queue's
};

struct Candidate {
  int64_t count;
  Key key;
  bool operator<(const Candidate& o) const {  // std::priority_queue: largest first
    return count != o.count ? count < o.count : key > o.key;
  }
};

class Learner {
 public:
  explicit Learner(std::vector<MergeChunk> chunks) : chunks_(std::move(chunks)) {
    for (size_t i = 0; i < chunks_.size(); ++i) count_pairs(static_cast<int32_t>(i), +1);
    queue_changed();
  }

  /// The most frequent pair now; nothing if no pair occurs at least min_count times.
  std::optional<Merge> best(int64_t min_count) {
    while (!queue_.empty()) {
      const Candidate best = queue_.top();
      queue_.pop();
      const auto found = pairs_.find(best.key);
      // Counts may change while queued; each change queues the pair again.
      if (found == pairs_.end() || found->second.count != best.count) continue;
      if (best.count < min_count) return std::nullopt;
      return Merge(static_cast<int32_t>(best.key >> 32),
                   static_cast<int32_t>(best.key & 0xFFFFFFFF));
    }
    return std::nullopt;
  }

  void apply(const Merge& merge, int32_t id) {
    const std::vector<int32_t> where = std::move(pairs_[key_of(merge.first, merge.second)].chunks);
    for (int32_t index : where) {
      std::vector<int32_t>& ids = chunks_[index].ids;
      if (!contains(ids, merge)) continue;
      count_pairs(index, -1);
      replace_pair(ids, merge.first, merge.second, id);
      count_pairs(index, +1);
    }
    queue_changed();
  }

 private:
  void count_pairs(int32_t index, int sign) {
    const MergeChunk& chunk = chunks_[index];
    for (size_t i = 0; i + 1 < chunk.ids.size(); ++i) {
      const Key key = key_of(chunk.ids[i], chunk.ids[i + 1]);
      PairStatistics& statistics = pairs_[key];
      statistics.count += sign * chunk.count;
      if (sign > 0 && (statistics.chunks.empty() || statistics.chunks.back() != index))
        statistics.chunks.push_back(index);
      if (!std::exchange(statistics.changed, true)) changed_.push_back(key);
    }
  }

  void queue_changed() {
    for (Key key : changed_) {
      const auto found = pairs_.find(key);
      found->second.changed = false;
      if (found->second.count > 0)
        queue_.push({found->second.count, key});
      else
        pairs_.erase(found);
    }
    changed_.clear();
  }

  static bool contains(const std::vector<int32_t>& ids, const Merge& merge) {
    for (size_t i = 0; i + 1 < ids.size(); ++i)
      if (ids[i] == merge.first && ids[i + 1] == merge.second) return true;
    return false;
  }

  std::vector<MergeChunk> chunks_;
  std::unordered_map<Key, PairStatistics> pairs_;
  std::vector<Key> changed_;  // each pair once
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void learn_merges(std::vector<MergeChunk> chunks, int64_t min_count,
                  const std::function<std::optional<int32_t>(int32_t, int32_t)>& piece_of) {
  Learner learner(std::move(chunks));
  while (const std::optional<Merge> merge = learner.best(min_count)) {
    const std::optional<int32_t> id = piece_of(merge->first, merge->second);
    if (!id) return;
    learner.apply(*merge, *id);
  }
}

}  // namespace tern::datasets::detail
