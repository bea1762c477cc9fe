// Free lists for small objects: one list per size class and thread. Larger objects, and objects
// freed after their thread's lists are gone, use the heap.
#include "tern/core/base/pool.h"

#include <array>
#include <new>

namespace tern::detail::pool {
namespace {

constexpr std::size_t kStep = 64;     // size classes are multiples of a cache line
constexpr std::size_t kClasses = 32;  // larger objects go to operator new
constexpr int kMaxFree = 4096;        // objects kept per class and thread

struct Free {
  Free* next;
};

struct FreeLists {
  std::array<Free*, kClasses> head{};
  std::array<int, kClasses> count{};
  ~FreeLists();
};

// Set when this thread's lists are destroyed. Objects released later (by other thread-local
// destructors) go directly to the heap.
thread_local bool closed = false;
thread_local FreeLists lists;

FreeLists::~FreeLists() {
  for (Free* f : head)
    while (f) {
      Free* next = f->next;
      ::operator delete(f);
      f = next;
    }
  closed = true;
}

}  // namespace

void* acquire(std::size_t bytes) {
  std::size_t c = (bytes + kStep - 1) / kStep;
  if (c >= kClasses || closed) return ::operator new(c* kStep);
  Free* f = lists.head[c];
  if (!f) return ::operator new(c* kStep);
  lists.head[c] = f->next;
  --lists.count[c];
  return f;
}

void release(void* p, std::size_t bytes) noexcept {
  std::size_t c = (bytes + kStep - 1) / kStep;
  if (c >= kClasses || closed || lists.count[c] >= kMaxFree) {
    ::operator delete(p);
    return;
  }
  lists.head[c] = new (p) Free{lists.head[c]};
  ++lists.count[c];
}

}  // namespace tern::detail::pool
