// Inside of data only: learning which pairs of pieces to merge, for BPE and WordPiece.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace tern::data::detail {

/// A word or chunk as ids of its smallest pieces, and how often it occurs.
struct MergeChunk {
  std::vector<int32_t> ids;
  int64_t count;
};

/// Merges the most frequent pair of neighbours, of equal ones that with the smaller ids, again and
/// again while one occurs min_count times. piece_of(left, right) is the id of what they make, which
/// may be there already; nothing: enough.
void learn_merges(std::vector<MergeChunk> chunks, int64_t min_count,
                  const std::function<std::optional<int32_t>(int32_t, int32_t)>& piece_of);

}  // namespace tern::data::detail
