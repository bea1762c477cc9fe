// The arena for large blocks: best-fit search over free lists by size class, merging with free
// neighbours, and growth by mmap directly behind the last stretch where possible.
#include "tern/core/base/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <new>

#include "tern/core/base/system.h"

namespace tern::detail {
namespace {

// The number of free stretches of a class that a search looks at. A program that frees ten thousand
// blocks of nearly the same size must not search them all at every allocation.
constexpr int kLooked = 64;

char* map(void* at, std::size_t bytes, int how) {
  constexpr int kOwn = MAP_PRIVATE | MAP_ANONYMOUS;
  void* p = mmap(at, bytes, PROT_READ | PROT_WRITE, kOwn | how, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<char*>(p);
}

// An address with room for consecutive blocks. nullptr lets the system choose, since `ulimit -v`
// may make addresses scarce.
char* roomy_place() {
  for (int bits = 40; bits >= 34; bits -= 2) {
    const std::size_t bytes = std::size_t{1} << bits;
    void* p = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) continue;
    munmap(p, bytes);
    return static_cast<char*>(p);
  }
  return nullptr;
}

}  // namespace

std::size_t Arena::taken(std::size_t bytes) {
  return (bytes + kHeader + kPage - 1) / kPage * kPage;
}

std::size_t Arena::class_of(std::size_t bytes) {
  const std::size_t pages = bytes / kPage;
  const int octave = std::bit_width(pages) - 1;
  const std::size_t eighths = octave >= 3 ? pages >> (octave - 3) : pages << (3 - octave);
  return static_cast<std::size_t>(octave) * 8 + eighths % 8;
}

void Arena::list(Stretch* s) noexcept {
  const std::size_t c = class_of(s->bytes);
  s->free = true;
  s->newer = nullptr;
  s->older = newest_[c];
  if (s->older) s->older->newer = s;
  newest_[c] = s;
  occupied_[c / 64] |= std::uint64_t{1} << c % 64;
  free_ += s->bytes;
}

void Arena::unlist(Stretch* s) noexcept {
  const std::size_t c = class_of(s->bytes);
  s->free = false;
  if (s->older) s->older->newer = s->newer;
  (s->newer ? s->newer->older : newest_[c]) = s->older;
  if (!newest_[c]) occupied_[c / 64] &= ~(std::uint64_t{1} << c % 64);
  free_ -= s->bytes;
}

void Arena::link_after(Stretch* before, Stretch* s) noexcept {
  s->before = before;
  s->after = before ? before->after : nullptr;
  if (before) before->after = s;
  (s->after ? s->after->before : last_) = s;
}

// Removes the header between two stretches.
void Arena::join(Stretch* before, Stretch* after) noexcept {
  if (before) before->after = after;
  (after ? after->before : last_) = before;
}

// The smallest stretch that holds `size`, or nullptr.
Arena::Stretch* Arena::best_of(std::size_t of_class, std::size_t size) const noexcept {
  Stretch* best = nullptr;
  int looked = 0;
  for (Stretch* s = newest_[of_class]; s && looked < kLooked; s = s->older, ++looked) {
    if (s->bytes == size) return s;
    if (s->bytes > size && (!best || s->bytes < best->bytes)) best = s;
  }
  return best;
}

// The first class, beginning with `from`, that has a free stretch, or kClasses.
std::size_t Arena::next_class(std::size_t from) const noexcept {
  for (std::size_t word = from / 64; word < occupied_.size(); ++word) {
    std::uint64_t bits = occupied_[word];
    if (word == from / 64) bits &= ~std::uint64_t{0} << from % 64;
    if (bits) return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  }
  return kClasses;
}

// Cuts a block off the front of an unlisted stretch; the rest becomes free.
void* Arena::cut(Stretch* s, std::size_t size) noexcept {
  if (s->bytes > size) {
    auto* rest = new (reinterpret_cast<char*>(s) + size) Stretch{.bytes = s->bytes - size};
    s->bytes = size;
    link_after(s, rest);
    list(rest);
  }
  return block_of(s);
}

void* Arena::take(std::size_t size) noexcept {
  const std::size_t c = class_of(size);
  Stretch* s = best_of(c, size);
  if (!s) {
    const std::size_t larger = next_class(c + 1);
    if (larger == kClasses) return nullptr;
    s = best_of(larger, size);
  }
  unlist(s);
  return cut(s, size);
}

// A block of fresh memory at address `at`.
void* Arena::append(char* at, std::size_t bytes) noexcept {
  auto* s = new (at) Stretch{.bytes = bytes};
  link_after(last_, s);
  return block_of(s);
}

void* Arena::grow(std::size_t size) noexcept {
  // Tries to extend behind the last stretch, which may be free itself.
  if (last_) {
    const std::size_t had = last_->free ? last_->bytes : 0;
    if (had >= size) {  // a stretch that the search skipped
      unlist(last_);
      return cut(last_, size);
    }
    char* const end = last_->end();
    char* p = map(end, size - had, kAtThisPlace);
    if (p == end) {
      if (!had) return append(p, size);
      unlist(last_);
      last_->bytes = size;
      return block_of(last_);
    }
    if (p) munmap(p, size - had);  // others may choose another address, as Linux before 4.17
  }
  char* p = map(roomy_place(), size, 0);
  return p ? append(p, size) : nullptr;
}

void Arena::give_back(void* block) noexcept {
  auto* s = reinterpret_cast<Stretch*>(static_cast<char*>(block) - kHeader);
  if (Stretch* next = s->after; next && next->free && s->end() == reinterpret_cast<char*>(next)) {
    unlist(next);
    join(s, next->after);
    s->bytes += next->bytes;
  }
  if (Stretch* b = s->before; b && b->free && b->end() == reinterpret_cast<char*>(s)) {
    unlist(b);
    join(b, s->after);
    b->bytes += s->bytes;
    s = b;
  }
  list(s);
}

// Returns the last `bytes` of a free stretch; false if the system refuses (it may have to split a
// mapping, and their number is limited).
bool Arena::give_to_system(Stretch* s, std::size_t bytes) noexcept {
  unlist(s);
  Stretch *const before = s->before, *const after = s->after;
  const bool whole = bytes == s->bytes, gone = munmap(s->end() - bytes, bytes) == 0;
  if (gone && whole) {
    join(before, after);
    return true;
  }
  if (gone) s->bytes -= bytes;
  list(s);
  return gone;
}

void Arena::shrink(std::size_t keep) noexcept {
  while (free_ > keep) {
    std::size_t c = kClasses;
    for (std::size_t word = occupied_.size(); word-- > 0 && c == kClasses;)
      if (occupied_[word])
        c = word * 64 + 63 - static_cast<std::size_t>(std::countl_zero(occupied_[word]));
    Stretch* s = newest_[c];
    const std::size_t excess = (free_ - keep + kPage - 1) / kPage * kPage;
    if (!give_to_system(s, std::min(excess, s->bytes))) return;
  }
}

}  // namespace tern::detail
