// The caching allocator: size buckets for small blocks, an arena for large ones, one spin lock, and
// the memory cap. An optional listener receives every block.
#include "tern/core/base/allocator.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <thread>

#include "tern/core/base/arena.h"
#include "tern/core/base/error.h"
#include "tern/core/base/out_of_memory.h"
#include "tern/core/base/shape_only.h"
#include "tern/core/base/system.h"

namespace tern {
namespace {

constexpr std::size_t kAlign = 64;
// Cached and live bytes together stay below peak live bytes * 5/4 + kSlack, so that batches of
// varying size cannot grow the cache without limit.
constexpr int64_t kSlack = int64_t{16} << 20;
// The largest request: more than any machine has, and its sums and products fit 63 bits.
constexpr std::size_t kMost = std::size_t{1} << 56;

// Blocks of at least this size come from the arena.
constexpr std::size_t kLarge = std::size_t{256} << 10;

// The size of a block. Small sizes are rounded up to eight steps per octave: at most an eighth is
// wasted.
std::size_t taken(std::size_t bytes) {
  if (bytes > kMost) fail_memory(fmt::format("out of memory: {} bytes asked for", bytes));
  bytes = std::max(bytes, kAlign);
  const std::size_t step = std::max(std::bit_floor(bytes) / 8, kAlign);
  const std::size_t bucket = (bytes + step - 1) / step * step;
  return bucket < kLarge ? bucket : std::max(detail::Arena::taken(bytes), kLarge);
}

// The critical section takes less than 100 nanoseconds, and the threads of a parallel loop arrive
// together. A mutex would put them to sleep for much longer.
class SpinLock {
 public:
  void lock() {
    for (int tries = 0; taken_.test_and_set(std::memory_order_acquire); ++tries)
      if (tries > 200) std::this_thread::yield();  // its holder may be waiting for the processor
  }
  void unlock() { taken_.clear(std::memory_order_release); }

 private:
  std::atomic_flag taken_;
};

// Free small blocks of one size, last in first out. Each block stores the link to the next one:
// freeing must not allocate, because it cannot fail.
class Blocks {
 public:
  bool empty() const { return !top_; }
  void push(void* block) noexcept { top_ = new (block) Link{top_}; }
  void* pop() noexcept {
    void* block = top_;
    top_ = top_->next;
    return block;
  }

 private:
  struct Link {
    Link* next;
  };
  Link* top_ = nullptr;
};

class Cache {
 public:
  // For fork(): no other thread may be inside while the process is copied.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

  void* allocate(std::size_t& bytes) {
    const std::size_t asked = bytes;
    bytes = taken(bytes);
    std::lock_guard lock(mutex_);
    void* p = bytes < kLarge ? take_small(bytes) : arena_.take(bytes);
    if (!p) p = ask_system(bytes, asked);
    stats_.live += static_cast<int64_t>(bytes);
    stats_.peak = std::max(stats_.peak, stats_.live);
    return p;
  }

  void deallocate(void* p, std::size_t bytes) noexcept {
    std::lock_guard lock(mutex_);
    stats_.live -= static_cast<int64_t>(bytes);
    if (bytes >= kLarge) return arena_.give_back(p);
    small_ += static_cast<int64_t>(bytes);
    free_.find(bytes)->second.push(p);  // exists since the block was allocated
  }

  void trim() {
    std::lock_guard lock(mutex_);
    shrink(0);
    detail::trim_heap();  // pages of small blocks
  }

  MemoryStats stats() {
    std::lock_guard lock(mutex_);
    MemoryStats s = stats_;
    s.cached = cached();
    return s;
  }

  void reset_peak() {
    std::lock_guard lock(mutex_);
    stats_.peak = stats_.live;
  }

  void set_cap(int64_t bytes) {
    std::lock_guard lock(mutex_);
    cap_ = bytes;
  }

 private:
  int64_t cached() const { return small_ + static_cast<int64_t>(arena_.free_bytes()); }

  // Prefers a block of the same bucket: a repeated sequence of requests then finds the same blocks
  // at every step. If the cache is full, takes a block of up to twice the size: with varying shapes
  // that is better than returning blocks and touching fresh pages.
  void* take_small(std::size_t& bytes) {
    if (const auto it = free_.find(bytes); it != free_.end())
      if (void* p = take_from(it)) return p;
    if (!cache_is_full(bytes)) return nullptr;
    for (auto it = free_.upper_bound(bytes); it != free_.end() && it->first <= 2 * bytes; ++it) {
      if (it->second.empty()) continue;
      bytes = it->first;
      return take_from(it);
    }
    return nullptr;
  }

  void* take_from(std::map<std::size_t, Blocks>::iterator bucket) {
    if (bucket->second.empty()) return nullptr;
    void* p = bucket->second.pop();
    small_ -= static_cast<int64_t>(bucket->first);
    return p;
  }

  // The number of bytes that may be cached once `need` more bytes are live.
  int64_t room(int64_t need) const {
    const int64_t high = std::max(high_water_, stats_.live + need);
    return std::max<int64_t>(0, high / 4 * 5 + kSlack - stats_.live - need);
  }

  // A new block would evict others.
  bool cache_is_full(std::size_t bytes) const {
    return cached() > room(static_cast<int64_t>(bytes));
  }

  void* ask_system(std::size_t bytes, std::size_t asked) {
    auto need = static_cast<int64_t>(bytes);
    shrink(room(need));
    if (cap_ > 0 && stats_.live + need + cached() > cap_) {
      shrink(std::max<int64_t>(0, cap_ - stats_.live - need));
      check(stats_.live + need <= cap_,
            "memory cap: {} bytes are in use and {} more are asked for, but the cap is {}; raise "
            "it with set_memory_cap or use smaller batches",
            stats_.live, need, cap_);
    }
    void* p = fresh(bytes);
    if (!p) {
      shrink(0);
      p = fresh(bytes);
    }
    if (!p)
      fail_memory(fmt::format("out of memory: {} bytes asked for, {} in use by tensors", asked,
                              stats_.live));
    high_water_ = std::max(high_water_, stats_.live + need);  // of granted requests
    ++stats_.system_calls;
    return p;
  }

  void* fresh(std::size_t bytes) {
    if (bytes >= kLarge) return arena_.grow(bytes);
    free_.try_emplace(bytes);
    return std::aligned_alloc(kAlign, bytes);
  }

  // Returns blocks to the system, largest first, until at most `keep` bytes are cached.
  void shrink(int64_t keep) {
    if (cached() > keep)
      arena_.shrink(static_cast<std::size_t>(std::max<int64_t>(0, keep - small_)));
    for (auto it = free_.rbegin(); it != free_.rend() && cached() > keep; ++it)
      while (!it->second.empty() && cached() > keep) {
        std::free(it->second.pop());
        small_ -= static_cast<int64_t>(it->first);
      }
  }

  SpinLock mutex_;
  detail::Arena arena_;
  std::map<std::size_t, Blocks> free_;  // small blocks by size
  int64_t small_ = 0;                   // bytes of free small blocks
  MemoryStats stats_;                   // without `cached`
  int64_t cap_ = 0;
  int64_t high_water_ = 0;
};

std::mutex listening;
std::atomic<detail::AllocationListener*> listener = nullptr;

// Never destroyed, since tensors in static storage may outlive it. A forked child has only the
// thread that called fork(): a lock that another thread held would stay locked in the child.
Cache& cache() {
  static Cache* const instance = [] {
    auto* made = new Cache;
    pthread_atfork([] { cache().lock(); }, [] { cache().unlock(); }, [] { cache().unlock(); });
    return made;
  }();
  return *instance;
}

// Made before main(), so that no thread is still making it when another one calls fork().
[[maybe_unused]] const Cache& made_early = cache();

}  // namespace

MemoryStats memory_stats() { return cache().stats(); }
void reset_peak_memory() { cache().reset_peak(); }
void trim_memory() { cache().trim(); }
void set_memory_cap(int64_t bytes) { cache().set_cap(bytes); }

namespace detail {

void listen_to_allocations(AllocationListener* l) {
  std::lock_guard lock(listening);
  check(!l || !listener, "memory timeline: another one is active; end it first");
  listener = l;
}

void* allocate(std::size_t& bytes) {
  if (reserving) return reserve(bytes = taken(bytes));
  if (!listener.load(std::memory_order_relaxed)) return cache().allocate(bytes);
  void* p = nullptr;
  try {
    p = cache().allocate(bytes);
  } catch (const OutOfMemory& e) {
    std::lock_guard lock(listening);
    AllocationListener* l = listener;
    throw OutOfMemory(l ? fmt::format("{}; {}", e.what(), l->describe()) : e.what());
  } catch (const Error& e) {
    std::lock_guard lock(listening);
    AllocationListener* l = listener;
    fail(l ? fmt::format("{}; {}", e.what(), l->describe()) : e.what());
  }
  std::lock_guard lock(listening);
  if (AllocationListener* l = listener) l->allocated(p, bytes);
  return p;
}

void deallocate(void* p, std::size_t bytes) noexcept {
  if (release(p, bytes)) return;
  if (listener.load(std::memory_order_relaxed)) {
    std::lock_guard lock(listening);
    if (AllocationListener* l = listener) l->freed(p);
  }
  cache().deallocate(p, bytes);
}
}  // namespace detail

}  // namespace tern
