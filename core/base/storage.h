// The buffer of a tensor: 64-byte aligned, counted, with a version that in-place writes raise.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/core/base/allocator.h"
#include "tern/core/base/intrusive.h"
#include "tern/core/base/pool.h"

namespace tern {

class Storage : public Counted, public pool::Pooled {
 public:
  explicit Storage(std::size_t bytes) : bytes_(bytes), data_(detail::allocate(bytes_)) {}
  ~Storage() { detail::deallocate(data_, bytes_); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  /// Raised by every in-place write; the tape compares it with the version it saved.
  uint64_t version() const { return version_; }
  void bump_version() { ++version_; }

  /// Whether a parameter had these elements once and has others now (nn::to). Who still holds them
  /// to train or average them works on nothing.
  bool retired() const { return retired_; }
  void retire() { retired_ = true; }

 private:
  std::size_t bytes_;
  void* data_;
  uint64_t version_ = 0;
  bool retired_ = false;
};

inline void dispose(Storage* s) { delete s; }

}  // namespace tern
