// Working memory of a kernel, from the caching allocator. Inside of core only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/core/base/allocator.h"

namespace tern::kernels {

/// n uninitialised numbers, 64-byte aligned. Takes no memory for n = 0.
template <class T>
class Scratch {
 public:
  explicit Scratch(int64_t n)
      : bytes_(static_cast<size_t>(n) * sizeof(T)),
        data_(n ? static_cast<T*>(tern::detail::allocate(bytes_)) : nullptr) {}
  ~Scratch() {
    if (data_) tern::detail::deallocate(data_, bytes_);
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return data_; }

 private:
  size_t bytes_;
  T* data_;
};

}  // namespace tern::kernels
