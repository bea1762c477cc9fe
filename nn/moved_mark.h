// Marks a container of layers as moved from. Without the mark it would look like an empty one: the
// identity, with no parameters to train.
#pragma once

#include <utility>

#include "tern/core/base/error.h"

namespace tern::nn::detail {

/// Must be the first member of its container: then copying from a moved-from container fails before
/// anything changes.
class MovedMark {
 public:
  explicit MovedMark(const char* owner) : owner_(owner) {}
  MovedMark(const MovedMark& other) : owner_(other.owner_) { other.check_here(); }
  MovedMark(MovedMark&& other) noexcept
      : owner_(other.owner_), moved_(std::exchange(other.moved_, true)) {}
  MovedMark& operator=(MovedMark other) noexcept {
    moved_ = other.moved_;
    return *this;
  }
  ~MovedMark() = default;

  /// Error if the owner was moved from and not assigned since.
  void check_here() const {
    check(!moved_,
          "{}: it was moved away, by std::move of it or of its module; use the object it was moved "
          "to, or assign a new one",
          owner_);
  }

 private:
  const char* owner_;
  bool moved_ = false;
};

}  // namespace tern::nn::detail
