// A reference-counted pointer; the count is a member of the object.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

#include "tern/core/base/cpp20.h"

namespace tern::detail {

/// Base of counted objects. The count is atomic: several threads may share a tensor.
struct Counted {
  std::atomic<int64_t> count{0};
};

/// Keeps an object derived from Counted alive. The last pointer calls `dispose(T*)`, found by
/// argument-dependent lookup: each class decides how it is freed.
template <class T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* p) : p_(p) {
    if (p_) p_->count.fetch_add(1, std::memory_order_relaxed);
  }
  Ref(const Ref& o) : Ref(o.p_) {}
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() {
    if (p_ && p_->count.fetch_sub(1, std::memory_order_acq_rel) == 1) dispose(p_);
  }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  /// A pointer to an object whose memory still exists. Null if its last pointer is gone.
  static Ref if_alive(T* p) {
    int64_t n = p->count.load(std::memory_order_relaxed);
    while (n > 0 && !p->count.compare_exchange_weak(n, n + 1, std::memory_order_acq_rel)) {
    }
    Ref r;
    if (n > 0) r.p_ = p;
    return r;
  }
  bool operator==(const Ref& o) const = default;
  int64_t use_count() const { return p_ ? p_->count.load(std::memory_order_acquire) : 0; }

 private:
  T* p_ = nullptr;
};

}  // namespace tern::detail
