// Address space for ops that run without arithmetic: chunks of unbacked mappings, each owned by one
// scope, whose blocks are handed out in order.
#include "tern/core/base/shape_only.h"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/base/reserved.h"
#include "tern/core/base/system.h"

namespace tern {
namespace detail {

class Reservation {
 public:
  explicit Reservation(AllocationListener* l) : listener(l) {}
  AllocationListener* listener;
  int64_t live = 0, peak = 0;
};

}  // namespace detail

namespace {

using detail::Reservation;

constexpr std::size_t kChunk = std::size_t{1} << 38;  // bytes; the address space has 2^47
constexpr std::size_t kLeast = std::size_t{1} << 26;

/// A mapping whose blocks are handed out in order. It starts over once all blocks were returned.
struct Chunk {
  char* base;
  std::size_t size, used;
  int64_t blocks;
  Reservation* owner;  // null: its scope has ended
};

std::mutex mutex;  // guards everything below, and reservations
std::atomic<bool> any_chunks = false;

// Never destroyed, since tensors in static storage may outlive it.
std::vector<Chunk>& chunks() {
  static auto* instance = new std::vector<Chunk>;
  return *instance;
}

void* map(std::size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  detail::ask_for_small_pages(p, bytes);
  return p;
}

// A chunk of at least `bytes`, smaller than kChunk if the address space is limited (ulimit -v).
Chunk new_chunk(std::size_t bytes, Reservation* owner) {
  for (std::size_t size = std::max(bytes, kChunk);; size = std::max(bytes, size / 4)) {
    if (void* p = map(size)) return {static_cast<char*>(p), size, 0, 0, owner};
    check(size > std::max(bytes, kLeast),
          "ShapeOnlyScope: the system refuses {} bytes of address space; raise ulimit -v, or let "
          "vm.overcommit_memory be 0 or 1",
          size);
  }
}

void drop_unused() noexcept {
  std::erase_if(chunks(), [](const Chunk& c) {
    const bool unused = !c.owner && c.blocks == 0;
    if (unused) munmap(c.base, c.size);
    return unused;
  });
  any_chunks = !chunks().empty();
}

}  // namespace

void* detail::reserve(std::size_t bytes) {
  Reservation* own = reserving;
  std::lock_guard lock(mutex);
  auto chunk = std::find_if(chunks().begin(), chunks().end(), [&](const Chunk& c) {
    return c.owner == own && c.size - c.used >= bytes;
  });
  if (chunk == chunks().end()) {
    chunks().push_back(new_chunk(bytes, own));
    chunk = chunks().end() - 1;
    any_chunks = true;
  }
  void* p = chunk->base + chunk->used;
  if (own->listener) own->listener->allocated(p, bytes);
  chunk->used += bytes;
  ++chunk->blocks;
  own->live += static_cast<int64_t>(bytes);
  own->peak = std::max(own->peak, own->live);
  return p;
}

bool detail::release(void* p, std::size_t bytes) noexcept {
  if (!any_chunks.load(std::memory_order_relaxed)) return false;
  std::lock_guard lock(mutex);
  for (Chunk& c : chunks()) {
    if (p < c.base || p >= c.base + c.size) continue;
    if (c.owner) {
      if (c.owner->listener) c.owner->listener->freed(p);
      c.owner->live -= static_cast<int64_t>(bytes);
    }
    if (--c.blocks > 0) return true;
    clear_pages(c.base, c.used);
    c.used = 0;
    if (!c.owner) drop_unused();
    return true;
  }
  return false;
}

bool detail::is_reserved(const void* p) {
  if (!any_chunks.load(std::memory_order_relaxed)) return false;
  std::lock_guard lock(mutex);
  for (const Chunk& c : chunks())
    if (p >= c.base && p < c.base + c.size) return true;
  return false;
}

ShapeOnlyScope::ShapeOnlyScope(detail::AllocationListener* listener)
    : own_(new Reservation(listener)), outer_(detail::reserving) {
  detail::reserving = own_;
}

ShapeOnlyScope::~ShapeOnlyScope() {
  detail::reserving = outer_;
  std::lock_guard lock(mutex);
  for (Chunk& c : chunks())
    if (c.owner == own_) c.owner = nullptr;
  drop_unused();
  delete own_;
}

int64_t ShapeOnlyScope::live_bytes() const {
  std::lock_guard lock(mutex);
  return own_->live;
}

int64_t ShapeOnlyScope::peak_bytes() const {
  std::lock_guard lock(mutex);
  return own_->peak;
}

}  // namespace tern
