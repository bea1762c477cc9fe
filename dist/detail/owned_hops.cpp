// Groups small tensors, cuts large ones into a piece per rank, and lists the hops of both stages.
#include "tern/dist/detail/owned_hops.h"

namespace tern::dist::detail {
namespace {

// The piece of an item that its owner sends to rank `piece`.
Hop hop_of_piece(const std::vector<OwnedBytes>& items, size_t item, int64_t ranks, int64_t piece,
                 int64_t from, int64_t to) {
  const auto [owner, bytes] = items[item];
  const int64_t place = piece < owner ? piece : piece - 1;
  const int64_t begin = bytes * place / (ranks - 1), end = bytes * (place + 1) / (ranks - 1);
  return {from, to, item, begin, end - begin};
}

}  // namespace

std::vector<OwnedBytes> items_of(const std::vector<OwnedBytes>& tensors, int64_t ranks) {
  std::vector<OwnedBytes> items;
  for (int64_t r = 0; r < ranks; ++r) items.push_back({r, 0});
  for (const OwnedBytes& t : tensors)
    if (t.bytes < kSmallTensor)
      items[static_cast<size_t>(t.owner)].bytes += t.bytes;
    else
      items.push_back(t);
  return items;
}

std::vector<Hop> hops_to_all(const std::vector<OwnedBytes>& items, int64_t ranks, int64_t rank,
                             int stage) {
  int64_t all = 0;
  for (const OwnedBytes& i : items) all += i.bytes;
  std::vector<Hop> list;
  const auto add = [&](const Hop& hop) {
    if (hop.bytes > 0) list.push_back(hop);
  };
  for (size_t i = 0; i < items.size(); ++i) {
    const auto [owner, bytes] = items[i];
    const bool cut = ranks > 2 && bytes > 2 * all / ranks;
    const auto send_to = [&, i, owner = owner, bytes = bytes](int64_t to) {
      add(cut ? hop_of_piece(items, i, ranks, to, owner, to) : Hop{owner, to, i, 0, bytes});
    };
    if (stage == 0 && rank != owner) send_to(rank);
    if (stage == 0 ? rank != owner : !cut || rank == owner) continue;
    for (int64_t r = 0; r < ranks; ++r) {
      if (r == owner || r == rank) continue;
      if (stage == 0) {
        send_to(r);
      } else {
        add(hop_of_piece(items, i, ranks, rank, rank, r));
        add(hop_of_piece(items, i, ranks, r, r, rank));
      }
    }
  }
  return list;
}

std::vector<Hop> hops_to_first(const std::vector<OwnedBytes>& items, int64_t rank) {
  std::vector<Hop> list;
  for (size_t i = 0; i < items.size(); ++i)
    if (const auto [owner, bytes] = items[i];
        bytes > 0 && owner != 0 && (rank == 0 || rank == owner))
      list.push_back({owner, 0, i, 0, bytes});
  return list;
}

}  // namespace tern::dist::detail
