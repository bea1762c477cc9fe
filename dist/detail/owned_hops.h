// Which bytes go from rank to rank where each tensor has an owner (owned_tensors.h).
// Inside of dist only.
//
// An owner sends a tensor to all other ranks. One that is larger than two even parts of all bytes
// would keep its owner's link busy while the others wait: the owner sends each other rank one
// piece, and these pass the pieces on to each other. So no rank sends more than 2 (P - 1) / P of
// all bytes, if optim::shard_owners() has chosen the owners.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tern::dist::detail {

/// Tensors of fewer bytes travel together with the others of their owner.
constexpr int64_t kSmallTensor = int64_t{64} << 10;

/// A tensor, or several that travel together.
struct OwnedBytes {
  int64_t owner, bytes;
};

/// Bytes of an item that go from a rank to another.
struct Hop {
  int64_t from, to;
  size_t item;
  int64_t begin, bytes;
  bool operator==(const Hop&) const = default;
};

/// What travels as one: item r is the small tensors of rank r; the large ones follow in their
/// order.
std::vector<OwnedBytes> items_of(const std::vector<OwnedBytes>& tensors, int64_t ranks);

/// The hops from and to a rank where all ranks get all items, in two stages: those of stage 1 pass
/// on what came in stage 0. Hops between two ranks have the same order on both.
std::vector<Hop> hops_to_all(const std::vector<OwnedBytes>& items, int64_t ranks, int64_t rank,
                             int stage);
/// The same where rank 0 alone gets them, in one stage. A rank may leave out what it does not own.
std::vector<Hop> hops_to_first(const std::vector<OwnedBytes>& items, int64_t rank);

}  // namespace tern::dist::detail
