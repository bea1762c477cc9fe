// Who is told of blocks of memory as tensors take them and give them back.
#pragma once

#include <cstddef>
#include <string>

namespace tern::detail {

/// Is told of every block, by any thread, one call at a time.
class AllocationListener {
 public:
  virtual ~AllocationListener() = default;
  virtual void allocated(void* p, std::size_t bytes) = 0;
  virtual void freed(void* p) noexcept = 0;
  /// Added to the error of an allocation that fails.
  virtual std::string describe() const = 0;
};

}  // namespace tern::detail
