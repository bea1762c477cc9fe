// Inside of core only: large blocks, cut from memory of the system's and joined again as they
// are freed, so that what was freed as one size serves another. (With a list for each size a
// training step kept a fifth more than it ever used at once.)
//
// A block comes from the smallest free stretch that holds it; of those of its very size, from the
// one freed last, which may still be in the processor's caches. Nothing here asks the heap for
// memory: a line before each block links it to its neighbours. Not for several threads at a time;
// blocks that are in use when it ends stay as they are.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tern::detail {

class Arena {
 public:
  /// What a block of `bytes` takes: whole pages, with the line before it.
  static std::size_t taken(std::size_t bytes);

  /// A block that takes `size` (see taken), 64-byte aligned; nullptr if no free stretch holds it.
  void* take(std::size_t size) noexcept;
  /// The same, with fresh memory of the system's; nullptr if that has none.
  void* grow(std::size_t size) noexcept;
  void give_back(void* block) noexcept;

  std::size_t free_bytes() const { return free_; }
  /// Gives free stretches back to the system, large ones first, until at most `keep` bytes of them
  /// are left.
  void shrink(std::size_t keep) noexcept;

 private:
  // The beginning of each stretch, free or not.
  struct Stretch {
    std::size_t bytes;
    bool free = false;
    Stretch *before = nullptr, *after = nullptr;  // of all; the system's memory may lie between
    Stretch *newer = nullptr, *older = nullptr;   // of the free ones of its class
    char* end() { return reinterpret_cast<char*>(this) + bytes; }
  };
  static constexpr std::size_t kHeader = 64;
  static_assert(sizeof(Stretch) <= kHeader);
  // Of eight sizes an octave, in pages.
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
  std::array<std::uint64_t, (kClasses + 63) / 64> occupied_{};  // a bit for each class
  Stretch* last_ = nullptr;
  std::size_t free_ = 0;
};

}  // namespace tern::detail
