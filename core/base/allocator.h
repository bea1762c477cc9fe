// The caching allocator behind every Storage. Freed blocks are kept for reuse, so that a step of a
// fixed-shape model takes nothing from the system after its second step (fresh pages cost more than
// the arithmetic on them). Blocks below 256 KiB stay in size buckets. Larger blocks are cut from
// larger regions and merged again, see arena.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/core/base/allocation_listener.h"

namespace tern {

struct MemoryStats {
  int64_t live = 0;          ///< bytes that tensors use (rounded up to their buckets, or to pages)
  int64_t peak = 0;          ///< the largest `live` since reset_peak_memory()
  int64_t cached = 0;        ///< bytes kept for reuse
  int64_t system_calls = 0;  ///< number of blocks ever requested from the system
};

MemoryStats memory_stats();
void reset_peak_memory();

/// Returns all cached blocks to the system.
void trim_memory();

/// Limits the bytes of tensors and cache together; 0, the default, means no limit. An allocation
/// beyond the limit first trims the cache, then throws Error.
void set_memory_cap(int64_t bytes);

namespace detail {
/// Sets the listener, or removes it (null). Error if another one is set.
void listen_to_allocations(AllocationListener* listener);

/// Allocates a block of at least `bytes` bytes, aligned to 64 bytes. Sets `bytes` to the size of
/// the block, which may be more than the caller may use.
void* allocate(std::size_t& bytes);
void deallocate(void* p, std::size_t bytes) noexcept;
}  // namespace detail

}  // namespace tern
