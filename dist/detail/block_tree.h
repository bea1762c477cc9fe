// How the blocks of a step and the elements of its gradients are divided among ranks.
// Inside of dist only.
#pragma once

#include <cstdint>
#include <vector>

#include "tern/core/base/dtype.h"

namespace tern::dist::detail {

/// Blocks first to end - 1. A node of the tree over blocks is such a range.
struct BlockRange {
  int64_t first, end;
  int64_t size() const { return end - first; }
  bool operator==(const BlockRange&) const = default;
};

/// Where the tree divides a node of `blocks` blocks: behind the largest power of two below.
int64_t left_half(int64_t blocks);

/// The blocks that a rank computes.
BlockRange range_of(int64_t blocks, int64_t ranks, int64_t rank);

/// The largest nodes of the tree over `blocks` blocks that a rank computes whole, in their order.
std::vector<BlockRange> nodes_of(int64_t blocks, int64_t ranks, int64_t rank);

/// Elements from to end - 1 of `elements`: those that a rank adds up.
struct Share {
  int64_t from, end;
  int64_t size() const { return end - from; }
};
Share share_of(int64_t elements, int64_t ranks, int64_t rank);

/// A tensor that is added up.
struct BucketItem {
  DType dtype;
  int64_t numel;
};

/// Items first to end - 1, of one type. They are sent together, one behind the other.
struct Bucket {
  DType dtype;
  size_t first, end;
  std::vector<int64_t> offsets;  ///< of each item, and the number of elements in all
  int64_t size() const { return offsets.back(); }
  int64_t offset(size_t item) const { return offsets[item - first]; }
};

/// Cuts a list of items into buckets. A bucket is closed by the item that brings it to `bytes`, or
/// to a quarter of what was left when it began, but not below an eighth of `bytes`: the last
/// buckets are small, since no work is left that could hide their exchange.
std::vector<Bucket> buckets_of(const std::vector<BucketItem>& items, int64_t bytes);

}  // namespace tern::dist::detail
