// An observer of the memory blocks that tensors take and return.
#pragma once

#include <cstddef>
#include <string>

namespace tern::detail {

/// Receives the allocation and release of every block, from any thread, one call after another.
class AllocationListener {
 public:
  virtual ~AllocationListener() = default;
  virtual void allocated(void* p, std::size_t bytes) = 0;
  virtual void freed(void* p) noexcept = 0;
  /// Text to append to the error of a failed allocation.
  virtual std::string describe() const = 0;
};

}  // namespace tern::detail
