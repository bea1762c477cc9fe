// Learns which pairs of pieces to merge, for BPE and WordPiece. Inside of data only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace tern::datasets::detail {

/// A word or chunk as ids of its smallest pieces, and its number of occurrences.
struct MergeChunk {
  std::vector<int32_t> ids;
  int64_t count;
};

/// Repeatedly merges the most frequent pair of neighbours, and among equals the one with the
/// smaller ids, while a pair occurs at least min_count times. piece_of(left, right) returns the id
/// of the result, which may exist already, or nothing to stop.
void learn_merges(std::vector<MergeChunk> chunks, int64_t min_count,
                  const std::function<std::optional<int32_t>(int32_t, int32_t)>& piece_of);

}  // namespace tern::datasets::detail
