// The hops that send each rank's updated part of the weights to all: every byte arrives once, and
// no rank sends too much.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "tern/dist/detail/owned_hops.h"
#include "tern/optim/shards.h"

namespace tern::test::test_owned_hops {
namespace {

using dist::detail::Hop;
using dist::detail::OwnedBytes;

// Parameters with 8 bytes of state per 4 bytes, with the owners that optim::shard_owners() chooses.
std::vector<OwnedBytes> owned(const std::vector<int64_t>& sizes, int64_t ranks) {
  std::vector<optim::ShardItem> parameters;
  for (const int64_t bytes : sizes) parameters.push_back({2 * bytes, bytes / 4});
  const std::vector<int64_t> owners = optim::shard_owners(parameters, ranks);
  std::vector<OwnedBytes> items;
  for (size_t i = 0; i < sizes.size(); ++i) items.push_back({owners[i], sizes[i]});
  return items;
}

// A table with most of the weights; layers of several sizes; equal sizes; few and tiny ones.
const std::vector<std::vector<int64_t>> kModels = {{7400, 600, 600, 600, 400, 400},
                                                   {3000, 2500, 40, 40, 800, 40, 800},
                                                   std::vector(12, 1000L),
                                                   {4, 4, 4},
                                                   {1000}};

// How often each byte of each item has arrived, by rank.
struct Received {
  std::vector<std::vector<std::vector<int>>> times;
  Received(const std::vector<OwnedBytes>& items, int64_t ranks) {
    for (int64_t r = 0; r < ranks; ++r) {
      auto& of_rank = times.emplace_back();
      for (const OwnedBytes& i : items)
        of_rank.emplace_back(static_cast<size_t>(i.bytes), i.owner == r ? 1 : 0);
    }
  }
  std::vector<int>& of(int64_t rank, size_t item) { return times[static_cast<size_t>(rank)][item]; }
  bool has(int64_t rank, const Hop& h) {
    const auto first = of(rank, h.item).begin() + h.begin;
    return std::all_of(first, first + h.bytes, [](int n) { return n == 1; });
  }
  void add(const Hop& h) {
    const auto first = of(h.to, h.item).begin() + h.begin;
    for (auto at = first; at != first + h.bytes; ++at) ++*at;
  }
};

// The hops between two ranks in the list of one rank.
std::vector<Hop> between(std::vector<Hop> hops, int64_t from, int64_t to) {
  std::erase_if(hops, [&](const Hop& h) { return h.from != from || h.to != to; });
  return hops;
}

}  // namespace

TEST_CASE("owned hops: every byte arrives once, from a rank that has it, and both ranks agree") {
  for (const std::vector<int64_t>& sizes : kModels)
    for (const int64_t ranks : {2, 3, 4, 8}) {
      CAPTURE(ranks);
      const std::vector<OwnedBytes> items = owned(sizes, ranks);
      Received received(items, ranks);
      for (int stage = 0; stage < 2; ++stage) {
        const Received before = received;
        for (int64_t from = 0; from < ranks; ++from)
          for (int64_t to = 0; to < ranks; ++to) {
            if (from == to) continue;
            const auto sent =
                between(dist::detail::hops_to_all(items, ranks, from, stage), from, to);
            CHECK((sent == between(dist::detail::hops_to_all(items, ranks, to, stage), from, to)));
            for (const Hop& h : sent) {
              CHECK(Received(before).has(from, h));
              received.add(h);
            }
          }
      }
      for (const auto& of_rank : received.times)
        for (const auto& times : of_rank)
          CHECK(std::all_of(times.begin(), times.end(), [](int n) { return n == 1; }));
    }
}

TEST_CASE("owned hops: no rank sends more than twice its even share, however large a tensor is") {
  for (std::vector<int64_t> sizes : kModels) {
    for (int64_t& bytes : sizes) bytes *= 1000;  // pieces are whole bytes
    for (const int64_t ranks : {2, 3, 4, 8, 64}) {
      CAPTURE(sizes.front());
      CAPTURE(ranks);
      const std::vector<OwnedBytes> items = owned(sizes, ranks);
      const int64_t all = std::accumulate(sizes.begin(), sizes.end(), int64_t{0});
      for (int64_t rank = 0; rank < ranks; ++rank) {
        int64_t sent = 0;
        for (int stage = 0; stage < 2; ++stage)
          for (const Hop& h : dist::detail::hops_to_all(items, ranks, rank, stage))
            if (h.from == rank) sent += h.bytes;
        CHECK(sent * ranks <= 2 * (ranks - 1) * all);
      }
    }
  }
}

}  // namespace tern::test::test_owned_hops
