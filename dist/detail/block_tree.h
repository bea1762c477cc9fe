// How the blocks of a step and the elements of its gradients are divided among ranks.
// Inside of dist only.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/core/base/dtype.h"

namespace tern::dist::detail {

/// Blocks or elements first to end - 1. A node of the tree over blocks is such a range.
struct Range {
  int64_t first, end;
  int64_t size() const { return end - first; }
  bool operator==(const Range&) const = default;
};

/// The number of blocks in the left child of a node of `blocks` blocks: the largest power of two
/// below `blocks`.
int64_t left_half(int64_t blocks);

/// The part of `count` that is a rank's: the blocks that it computes, or the elements that it adds
/// up.
Range range_of(int64_t count, int64_t ranks, int64_t rank);

/// The largest nodes of the tree over `blocks` blocks that a rank computes alone, in their order.
std::vector<Range> nodes_of(int64_t blocks, int64_t ranks, int64_t rank);

/// A tensor to be added up over the blocks.
struct BucketItem {
  DType dtype;
  int64_t numel;
};

/// The items first to end - 1, which have one type and are sent together.
struct Bucket {
  DType dtype;
  size_t first, end;
  std::vector<int64_t> offsets;  ///< the first element of each item, then the total number
  int64_t size() const { return offsets.back(); }
  int64_t offset(size_t item) const { return offsets[item - first]; }
};

/// Cuts a list of items into buckets. A bucket ends with the item that brings it to `bytes`, or to
/// a quarter of the bytes that were left when it began, but not to less than `bytes` / 8. So the
/// last buckets are small, since no work is left that could hide their exchange.
std::vector<Bucket> buckets_of(const std::vector<BucketItem>& items, int64_t bytes);

}  // namespace tern::dist::detail
