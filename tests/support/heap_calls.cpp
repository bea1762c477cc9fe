// Replaces operator new and delete of a test program, to count calls and to run out of memory.
#include "tern/tests/support/heap_calls.h"

#include <algorithm>
#include <cstdlib>
#include <new>

std::atomic<int64_t> tern::test::heap_calls = 0;
std::atomic<int64_t> tern::test::heap_largest = 0;

thread_local bool tern::test::heap_is_empty = false;

// The program's heap, which has no memory while heap_is_empty is set. All variants are replaced: a
// sanitizer has a nothrow new of its own (std::stable_sort calls it), whose memory free() refuses.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  tern::test::heap_calls.fetch_add(1, std::memory_order_relaxed);
  int64_t most = tern::test::heap_largest;
  const auto size = static_cast<int64_t>(bytes);
  while (size > most && !tern::test::heap_largest.compare_exchange_weak(most, size)) {
  }
  return tern::test::heap_is_empty ? nullptr : std::malloc(std::max<std::size_t>(bytes, 1));
}
void* operator new(std::size_t bytes) {
  void* p = operator new(bytes, std::nothrow);
  if (!p) throw std::bad_alloc();
  return p;
}
void operator delete(void* p, const std::nothrow_t&) noexcept { std::free(p); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
