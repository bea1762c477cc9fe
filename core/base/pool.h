// Memory for small objects of the tape (tensor handles, nodes, saved closures) from per-thread free
// lists. Once a program has warmed up, an op does not call the system's heap.
#pragma once

#include <cstddef>

namespace tern::detail::pool {

/// Memory for an object of `bytes`, aligned for any scalar type. Any thread may release it.
void* acquire(std::size_t bytes);
void release(void* p, std::size_t bytes) noexcept;

/// Base of classes whose objects come from the pool.
struct Pooled {
  static void* operator new(std::size_t bytes) { return acquire(bytes); }
  static void operator delete(void* p, std::size_t bytes) { pool::release(p, bytes); }
};

/// Allocator for the standard containers.
template <class T>
struct Allocator {
  using value_type = T;
  Allocator() = default;
  template <class U>
  Allocator(const Allocator<U>&) {}  // NOLINT: rebinding is implicit in the standard
  T* allocate(std::size_t n) { return static_cast<T*>(acquire(n * sizeof(T))); }
  void deallocate(T* p, std::size_t n) { pool::release(p, n * sizeof(T)); }
  bool operator==(const Allocator&) const { return true; }
};

}  // namespace tern::detail::pool
