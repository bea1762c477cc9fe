// Decides which bytes go from rank to rank when each tensor has an owner (owned_tensors.h).
// Inside of dist only.
//
// An owner sends a tensor to all other ranks. A tensor larger than 2 / P of all bytes, on P ranks,
// would keep its owner's link busy while the others wait. So the owner sends a different piece of
// it to each other rank, and these send the pieces to each other. No rank sends more than
// 2 (P - 1) / P of all bytes, if optim::shard_owners() has chosen the owners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern::dist::detail {

/// Tensors of fewer bytes are sent together with the other small ones of their owner.
constexpr int64_t kSmallTensor = int64_t{64} << 10;

/// The size of a tensor, or of several that are sent together.
struct OwnedBytes {
  int64_t owner, bytes;
};

/// Bytes of an item that one rank sends to another.
struct Hop {
  int64_t from, to;
  size_t item;
  int64_t begin, bytes;
  bool operator==(const Hop&) const = default;
};

/// The items to send: item r holds the small tensors of rank r; the large tensors follow in their
/// order.
std::vector<OwnedBytes> items_of(const std::vector<OwnedBytes>& tensors, int64_t ranks);

/// The hops from and to a rank in a stage (0 or 1) when all ranks get all items. Stage 1 forwards
/// the pieces received in stage 0. Hops between two ranks have the same order on both.
std::vector<Hop> hops_to_all(const std::vector<OwnedBytes>& items, int64_t ranks, int64_t rank,
                             int stage);
/// The same when only rank 0 gets the items, in one stage. Other ranks may leave out items that
/// they do not own.
std::vector<Hop> hops_to_first(const std::vector<OwnedBytes>& items, int64_t rank);

}  // namespace tern::dist::detail
