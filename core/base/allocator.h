// The caching allocator behind every Storage. Freed blocks are kept and handed out again, so that a
// step of a fixed-shape model asks the system for nothing after its second step (fresh pages cost
// more than the arithmetic on them). Blocks below 256 KiB are kept in size buckets; larger ones are
// cut from stretches of memory and joined again, see arena.h.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/core/base/allocation_listener.h"

namespace tern {

struct MemoryStats {
  int64_t live = 0;          ///< bytes in use by tensors (rounded up to their buckets, or to pages)
  int64_t peak = 0;          ///< the most `live` has been since reset_peak_memory()
  int64_t cached = 0;        ///< bytes kept for reuse
  int64_t system_calls = 0;  ///< blocks ever asked of the system
};

MemoryStats memory_stats();
void reset_peak_memory();

/// Gives all cached blocks back to the system.
void trim_memory();

/// The most bytes that tensors may use and the cache may hold together; 0 means no limit, the
/// default. Beyond it an allocation first trims the cache, then throws Error.
void set_memory_cap(int64_t bytes);

namespace detail {
/// From now on; null: nobody. An Error if somebody listens already.
void listen_to_allocations(AllocationListener* listener);

/// A block with room for `bytes`, 64-byte aligned; `bytes` is replaced by what the block takes,
/// which may be more than there is room for behind its beginning.
void* allocate(std::size_t& bytes);
void deallocate(void* p, std::size_t bytes) noexcept;
}  // namespace detail

}  // namespace tern
