// The arena of large blocks: reuse, joining of free neighbours, choice of the best fit, growth and
// shrinking; then the allocator on top of it, with many sizes and threads.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "tern/core/base/allocator.h"
#include "tern/core/base/arena.h"
#include "tern/core/base/system.h"
#include "tern/core/base/threads.h"
#include "tern/core/ops/ops.h"

namespace tern::test_arena {
namespace {

using detail::Arena;

constexpr std::size_t kPage = tern::detail::kPage, kLine = 64;

struct Block {
  char* data;
  std::size_t size;
  char mark;
  /// The bytes that the owner of the block may write.
  std::span<char> bytes() const { return {data, size - kLine}; }
};

Block block_of(Arena& arena, std::size_t size, char mark) {
  void* p = arena.take(size);
  if (!p) p = arena.grow(size);
  REQUIRE(p);
  REQUIRE(reinterpret_cast<std::uintptr_t>(p) % kLine == 0);
  const Block b{static_cast<char*>(p), size, mark};
  // Mark both ends and one byte per page.
  b.bytes().front() = b.bytes().back() = mark;
  for (std::size_t i = 0; i < b.bytes().size(); i += kPage) b.bytes()[i] = mark;
  return b;
}

bool untouched(const Block& b) {
  bool same = b.bytes().front() == b.mark && b.bytes().back() == b.mark;
  for (std::size_t i = 0; i < b.bytes().size(); i += kPage) same = same && b.bytes()[i] == b.mark;
  return same;
}

TEST_CASE("arena: a block and the cache line before it fill whole pages") {
  CHECK(Arena::taken(1) == kPage);
  CHECK(Arena::taken(kPage - kLine) == kPage);
  CHECK(Arena::taken(kPage - kLine + 1) == 2 * kPage);
  CHECK(Arena::taken(kPage) == 2 * kPage);
}

TEST_CASE("arena: random blocks keep their contents") {
  for (const unsigned seed : {1U, 2U, 3U}) {
    Arena arena;
    std::mt19937 random(seed);
    std::vector<Block> live;
    std::size_t taken = 0, most = 0;
    for (int i = 0; i < 20000; ++i) {
      const bool more = random() % 1000 < 1000 - 5 * live.size();
      if (more) {
        const std::size_t pages = 1 + (random() % 8 ? random() % 50 : random() % 700);
        live.push_back(block_of(arena, pages * kPage, static_cast<char>(random() % 127)));
        taken += live.back().size;
      } else if (!live.empty()) {
        std::swap(live[random() % live.size()], live.back());
        REQUIRE(untouched(live.back()));
        taken -= live.back().size;
        arena.give_back(live.back().data);
        live.pop_back();
      }
      most = std::max(most, taken);
      if (i % 1000 == 999) arena.shrink(arena.free_bytes() / 2);
    }
    CHECK(taken + arena.free_bytes() < most + most / 4);  // free blocks were reused
    for (const Block& b : live) {
      REQUIRE(untouched(b));
      arena.give_back(b.data);
    }
    arena.shrink(0);
    CHECK(arena.free_bytes() == 0);
  }
}

TEST_CASE("arena: free neighbours are joined, in any order of freeing") {
  std::vector<int> order = {0, 1, 2, 3};
  do {
    Arena arena;
    std::vector<Block> blocks;
    for (int i = 0; i < 4; ++i) blocks.push_back(block_of(arena, 64 * kPage, 'x'));
    for (int i : order) arena.give_back(blocks[static_cast<size_t>(i)].data);
    CHECK(arena.free_bytes() == 4 * 64 * kPage);
    void* all = arena.take(4 * 64 * kPage);
    CHECK(all == blocks[0].data);
    CHECK(arena.free_bytes() == 0);
    arena.give_back(all);
    arena.shrink(0);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("arena: take() gives the smallest block that fits, of equal ones the last freed") {
  Arena arena;
  std::vector<Block> blocks, between;
  for (const std::size_t pages : {90U, 70U, 80U, 70U, 300U}) {
    blocks.push_back(block_of(arena, pages * kPage, 'a'));
    between.push_back(block_of(arena, kPage, 'b'));
  }
  for (const Block& b : blocks) arena.give_back(b.data);
  CHECK(arena.take(70 * kPage) == blocks[3].data);
  CHECK(arena.take(69 * kPage) == blocks[1].data);
  CHECK(arena.take(69 * kPage) == blocks[2].data);
  CHECK(arena.take(100 * kPage) == blocks[4].data);
  CHECK(arena.take(201 * kPage) == nullptr);
  CHECK(arena.take(200 * kPage) == blocks[4].data + 100 * kPage);
  for (const Block& b : between) CHECK(untouched(b));
}

TEST_CASE("arena: grow() extends a free block at the end; shrink() releases whole pages") {
  Arena arena;
  const Block first = block_of(arena, 100 * kPage, 'a');
  const Block second = block_of(arena, 100 * kPage, 'b');
  arena.give_back(second.data);
  CHECK(arena.grow(150 * kPage) == second.data);
  CHECK(arena.free_bytes() == 0);
  arena.give_back(second.data);
  CHECK(arena.free_bytes() == 150 * kPage);
  arena.shrink(60 * kPage - 1);
  CHECK(arena.free_bytes() == 59 * kPage);
  CHECK(arena.take(59 * kPage) == second.data);
  std::memset(second.data, 1, 59 * kPage - kLine);
  arena.give_back(second.data);
  CHECK(untouched(first));
  arena.give_back(first.data);
  CHECK(arena.free_bytes() == 159 * kPage);  // joined across the part that shrink() released
  arena.shrink(0);
  CHECK(arena.free_bytes() == 0);
  CHECK(untouched(block_of(arena, kPage, 'c')));  // the empty arena can be used again
}

TEST_CASE("arena: take() tries only some of many free blocks; grow() finds the last") {
  Arena arena;
  constexpr std::size_t kSmall = 64 * kPage, kFits = 71 * kPage;  // of one size class
  std::vector<void*> small;
  for (int i = 0; i < 200; ++i) {
    small.push_back(arena.grow(kSmall));
    arena.grow(kPage);
  }
  void* last = arena.grow(kFits);
  arena.give_back(last);  // freed first, so take() would try it last
  for (void* block : small) arena.give_back(block);
  CHECK(arena.take(70 * kPage) == nullptr);
  CHECK(arena.grow(70 * kPage) == last);
  CHECK(arena.free_bytes() == 200 * kSmall + kPage);
  CHECK(arena.take(kSmall) == small.back());
  arena.shrink(0);
  CHECK(arena.free_bytes() == 0);
  CHECK(arena.take(kPage) == nullptr);
}

TEST_CASE("memory: freed blocks of one size serve another size") {
  trim_memory();
  std::vector<Tensor> parts;
  for (int i = 0; i < 16; ++i) parts.push_back(empty({1 << 20}));
  parts.clear();
  const MemoryStats before = memory_stats();
  const Tensor large = empty({15 << 20});
  CHECK(memory_stats().system_calls == before.system_calls);
  CHECK(memory_stats().live + memory_stats().cached == before.live + before.cached);
}

TEST_CASE("memory: threads allocate and free at the same time") {
  std::atomic<int> wrong = 0;
  parallel_for(64, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      for (int64_t n = 0; n < 20; ++n) {
        const Tensor a = full({70000 + 1000 * (i % 7) + n}, static_cast<double>(i));
        const Tensor b = full({90000 + n}, static_cast<double>(n));
        wrong += a.data<float>()[a.numel() - 1] != static_cast<float>(i);
        wrong += b.data<float>()[0] != static_cast<float>(n);
      }
  });
  CHECK(wrong == 0);
}

}  // namespace
}  // namespace tern::test_arena
