// Merges pairs by priority: long runs of one pair at once, the rest with a queue.
#include "tern/data/text/bpe/bpe_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <queue>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets::detail {
namespace {

uint64_t key_of(int64_t left, int64_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint64_t>(right);
}

/// The places of a piece's neighbours; -1 and the number of pieces at the ends.
struct Neighbours {
  int32_t before, after;
};

}  // namespace

bool MergeTable::add(int64_t left, int64_t right, int64_t id) {
  const auto most = static_cast<size_t>(std::max({left, right, id}));
  if (most >= operands_.size()) operands_.resize(most + 1);
  operands_[static_cast<size_t>(left)] = operands_[static_cast<size_t>(right)] = true;
  ordered_ = ordered_ && !operands_[static_cast<size_t>(id)];
  return merged_.emplace(key_of(left, right), Merged{static_cast<uint32_t>(size()), id}).second;
}

const MergeTable::Merged* MergeTable::find(int64_t left, int64_t right) const {
  const auto found = merged_.find(key_of(left, right));
  return found == merged_.end() ? nullptr : &found->second;
}

// Merges the pair of highest priority everywhere, as long as it is a quarter of all pairs. In an
// ordered table no pair of higher priority can result, so the queue would do the same.
void MergeTable::merge_runs(std::vector<int64_t>& ids) const {
  constexpr size_t kLong = 256;  // below this, a queue is small
  while (ordered_ && ids.size() > kLong) {
    const Merged* first = nullptr;
    size_t count = 0, place = 0;
    for (size_t i = 0; i + 1 < ids.size(); ++i) {
      const Merged* m = find(ids[i], ids[i + 1]);
      if (!m || (first && m->rank > first->rank)) continue;
      if (m != first) count = 0, place = i;
      first = m;
      ++count;
    }
    if (!first || count < ids.size() / 4) return;
    replace_pair(ids, ids[place], ids[place + 1], first->id);
  }
}

std::vector<int64_t> MergeTable::merge(std::vector<int64_t> ids,
                                       const std::function<bool()>& skip) const {
  if (!skip) merge_runs(ids);
  check(ids.size() <= INT32_MAX, "byte-pair encoding: {} pieces that no rule cuts, at most {}",
        ids.size(), INT32_MAX);
  const auto count = static_cast<int32_t>(ids.size());
  constexpr int64_t kGone = -1;  // merged into the piece before
  std::vector<Neighbours> pieces(ids.size());
  for (int32_t i = 0; i < count; ++i) pieces[static_cast<size_t>(i)] = {i - 1, i + 1};
  auto merge_at = [&](int32_t place) -> const Merged* {
    if (place < 0 || pieces[place].after >= count) return nullptr;
    return find(ids[place], ids[pieces[place].after]);
  };
  // Ranks and places of pairs, the first to merge on top. Entries of changed pairs are skipped.
  std::vector<uint64_t> room;
  room.reserve(ids.size());
  std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> queue({}, std::move(room));
  auto push = [&](int32_t place) {
    if (const Merged* m = merge_at(place))
      queue.push(uint64_t{m->rank} << 32 | static_cast<uint32_t>(place));
  };
  for (int32_t i = 0; i + 1 < count; ++i) push(i);
  std::vector<uint64_t> skipped;  // entries that wait for the next merge
  while (!queue.empty()) {
    const uint64_t top = queue.top();
    queue.pop();
    const auto place = static_cast<int32_t>(top & UINT32_MAX);
    const Merged* m = ids[place] == kGone ? nullptr : merge_at(place);
    if (!m || m->rank != top >> 32) continue;
    if (skip && skip()) {
      skipped.push_back(top);
      continue;
    }
    for (const uint64_t entry : skipped) queue.push(entry);
    skipped.clear();
    const int32_t next = pieces[place].after;
    ids[place] = m->id;
    ids[next] = kGone;
    pieces[place].after = pieces[next].after;
    if (pieces[place].after < count) pieces[pieces[place].after].before = place;
    push(place);
    push(pieces[place].before);
  }
  std::erase(ids, kGone);
  return ids;
}

std::string shown_piece(std::string_view bytes) {
  std::string out;
  for (size_t at = 0; at < bytes.size();) {
    const size_t begin = at;
    next_code_point(bytes, at);
    const std::string_view one = bytes.substr(begin, at - begin);
    const auto byte = static_cast<unsigned char>(one[0]);
    if (one == " ")
      out += "▁";
    else if (find_invalid_utf8(one) || byte < 0x20 || byte == 0x7F)
      out += fmt::format("<{:02X}>", byte);
    else
      out += one;
  }
  return out;
}

}  // namespace tern::datasets::detail
