// The tree over the blocks of a step, the blocks and shares of each rank, and the cut of a list of
// tensors into buckets. Everything follows from the numbers of blocks, ranks and elements.
#include "tern/dist/detail/block_tree.h"

#include <algorithm>
#include <bit>

namespace tern::dist::detail {
namespace {

// Appends the largest nodes of the tree below `node` whose blocks all lie in `own`.
void add_nodes(Range node, Range own, std::vector<Range>& to) {
  if (node.end <= own.first || own.end <= node.first) return;
  if (own.first <= node.first && node.end <= own.end) {
    to.push_back(node);
    return;
  }
  const int64_t middle = node.first + left_half(node.size());
  add_nodes({node.first, middle}, own, to);
  add_nodes({middle, node.end}, own, to);
}

}  // namespace

int64_t left_half(int64_t blocks) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(blocks - 1)));
}

Range range_of(int64_t count, int64_t ranks, int64_t rank) {
  return {count * rank / ranks, count * (rank + 1) / ranks};
}

std::vector<Range> nodes_of(int64_t blocks, int64_t ranks, int64_t rank) {
  std::vector<Range> nodes;
  add_nodes({0, blocks}, range_of(blocks, ranks, rank), nodes);
  return nodes;
}

std::vector<Bucket> buckets_of(const std::vector<BucketItem>& items, int64_t bytes) {
  std::vector<Bucket> buckets;
  int64_t left = 0, enough = 0;  // bytes of items without a bucket; bytes that fill the last bucket
  for (const BucketItem& item : items) left += item.numel * item_size(item.dtype);
  for (size_t i = 0; i < items.size(); ++i) {
    const auto [dtype, numel] = items[i];
    if (buckets.empty() || buckets.back().dtype != dtype ||
        buckets.back().size() * item_size(dtype) >= enough) {
      buckets.push_back({dtype, i, i, {0}});
      enough = std::clamp(left / 4, bytes / 8, bytes);
    }
    buckets.back().end = i + 1;
    buckets.back().offsets.push_back(buckets.back().size() + numel);
    left -= numel * item_size(dtype);
  }
  return buckets;
}

}  // namespace tern::dist::detail
