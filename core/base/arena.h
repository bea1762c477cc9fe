// Large blocks: cut from system memory, and merged with free neighbours when freed, so that memory
// freed in one size serves another. (With one free list per size, a training step kept a fifth more
// than its peak use.) Inside of core only.
//
// A block is cut from the smallest free stretch that holds it. Among stretches of the same size,
// the arena takes the one freed last, since it may still be in the caches. The arena uses no heap
// memory: a cache line before each block links it to its neighbours. Not thread-safe. Blocks that
// outlive the arena stay valid.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tern::detail {

class Arena {
 public:
  /// The size of a block for `bytes`: whole pages, including the line before it.
  static std::size_t taken(std::size_t bytes);

  /// Returns a 64-byte aligned block of `size` (see taken); nullptr if no free stretch holds it.
  void* take(std::size_t size) noexcept;
  /// The same from fresh system memory; nullptr if the system has none.
  void* grow(std::size_t size) noexcept;
  void give_back(void* block) noexcept;

  std::size_t free_bytes() const { return free_; }
  /// Returns free stretches to the system, large ones first, until at most `keep` bytes are left.
  void shrink(std::size_t keep) noexcept;

 private:
  // The header of each stretch, free or not.
  struct Stretch {
    std::size_t bytes;
    bool free = false;
    Stretch *before = nullptr, *after = nullptr;  // neighbours, perhaps with a gap between
    Stretch *newer = nullptr, *older = nullptr;   // links among the free ones of a class
    char* end() { return reinterpret_cast<char*>(this) + bytes; }
  };
  static constexpr std::size_t kHeader = 64;
  static_assert(sizeof(Stretch) <= kHeader);
  // Eight size classes per octave, in pages.
  static constexpr std::size_t kClasses = 8 * 52;

  static std::size_t class_of(std::size_t bytes);
  static void* block_of(Stretch* s) { return reinterpret_cast<char*>(s) + kHeader; }
  void list(Stretch* s) noexcept;
  void unlist(Stretch* s) noexcept;
  void link_after(Stretch* before, Stretch* s) noexcept;
  void join(Stretch* before, Stretch* after) noexcept;
  Stretch* best_of(std::size_t of_class, std::size_t size) const noexcept;
  std::size_t next_class(std::size_t from) const noexcept;
  void* cut(Stretch* s, std::size_t size) noexcept;
  bool give_to_system(Stretch* s, std::size_t bytes) noexcept;
  void* append(char* at, std::size_t bytes) noexcept;

  std::array<Stretch*, kClasses> newest_{};
  std::array<std::uint64_t, (kClasses + 63) / 64> occupied_{};  // one bit per class
  Stretch* last_ = nullptr;
  std::size_t free_ = 0;
};

}  // namespace tern::detail
