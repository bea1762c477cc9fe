// The buffer of a tensor, counted, with a version number: a block of the allocator, aligned to 64
// bytes, or foreign memory (Tensor::wrap), aligned to an element. It may know how to recompute its
// elements (Recomputation), and which object takes it over when its last owner lets go (Heir).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "tern/core/base/allocator.h"
#include "tern/core/base/intrusive.h"
#include "tern/core/base/pool.h"

namespace tern::detail {

class Storage;

/// Recomputes the elements of a storage, to the last bit. In a RecomputeScope
/// (core/tape/autograd.h) the tape keeps it instead of the elements.
class Recomputation : public Counted {
 public:
  Recomputation() = default;
  virtual ~Recomputation();
  Recomputation(const Recomputation&) = delete;
  Recomputation& operator=(const Recomputation&) = delete;
  /// The elements: computed by the first call, then kept.
  const Ref<Storage>& elements();
  int64_t remakes = 0;  ///< depth of the chain of recomputations, itself included

 protected:
  virtual Ref<Storage> make() const = 0;

 private:
  Ref<Storage> made_;
};
inline void dispose(Recomputation* r) { delete r; }

/// Takes over a storage when its last owner lets go, for example to keep its elements as bf16.
class Heir : public Counted, public pool::Pooled {
 public:
  Heir() = default;
  virtual ~Heir() = default;
  Heir(const Heir&) = delete;
  Heir& operator=(const Heir&) = delete;
  /// Takes ownership of `storage`.
  virtual void inherit(Storage* storage) noexcept = 0;
};
inline void dispose(Heir* heir) { delete heir; }

class Storage : public Counted, public pool::Pooled {
 public:
  explicit Storage(std::size_t size) : size_(size), bytes_(size), data_(allocate(bytes_)) {}
  /// Foreign memory: `owner` is released with the storage.
  Storage(void* data, std::size_t size, bool read_only, std::shared_ptr<const void> owner)
      : size_(size),
        bytes_(0),
        data_(data),
        foreign_(true),
        read_only_(read_only),
        owner_(std::move(owner)) {}
  ~Storage() {
    if (!foreign_) deallocate(data_, bytes_);
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return size_; }    ///< usable bytes
  std::size_t bytes() const { return bytes_; }  ///< of the allocator's block; 0 for foreign memory
  /// Whether the memory is somebody else's. It must not be exchanged, nor reused for results.
  bool foreign() const { return foreign_; }
  bool read_only() const { return read_only_; }
  /// Incremented by every in-place write; the tape compares it with the version it saved.
  uint64_t version() const { return version_; }
  void bump_version() {
    ++version_;
    recomputation_ = {};
  }
  /// Swaps elements with `other`, as if both had been written. REQUIRES: no other thread uses
  /// either meanwhile, and neither is foreign.
  void exchange(Storage& other) {
    std::swap(size_, other.size_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    bump_version();
    other.bump_version();
  }
  /// A way to recompute the current elements, or null.
  const Ref<Recomputation>& recomputation() const { return recomputation_; }
  void set_recomputation(Ref<Recomputation> recomputation) {
    recomputation_ = std::move(recomputation);
  }
  /// Sets the heir of the storage and returns it. The first proposal wins; threads may propose at
  /// the same time.
  Ref<Heir> propose_heir(Ref<Heir> proposed);
  Ref<Heir> heir() const { return Ref<Heir>(heir_.load(std::memory_order_acquire)); }
  Ref<Heir> take_heir();

  /// Whether a parameter once had these elements and now has others (nn::to). Training or averaging
  /// these elements would have no effect.
  bool retired() const { return retired_; }
  void retire() { retired_ = true; }
  /// Whether the buffer temporarily holds other values (averages during an evaluation). Meanwhile
  /// the elements must not be trained.
  bool lent() const { return lent_ > 0; }
  /// How many exchanges of elements inside each other are in place.
  int times_lent() const { return lent_; }
  /// REQUIRES: the caller has just exchanged the elements and incremented the version.
  void lend(bool on) {
    lent_ = static_cast<uint8_t>(lent_ + (on ? 1 : -1));
    lent_at_ = version_;
  }
  /// The version when elements were last lent or given back.
  uint64_t lent_at() const { return lent_at_; }
  /// The number of tensors on this buffer that require a gradient. Above 0, grad mode forbids
  /// writes to it through any handle.
  int64_t tracked() const { return tracked_.load(std::memory_order_relaxed); }
  void track(int64_t more) { tracked_.fetch_add(more, std::memory_order_relaxed); }

 private:
  std::size_t size_, bytes_;
  void* data_;
  bool foreign_ = false, read_only_ = false;
  std::shared_ptr<const void> owner_;
  uint64_t version_ = 0, lent_at_ = 0;
  bool retired_ = false;
  uint8_t lent_ = 0;
  std::atomic<int64_t> tracked_{0};
  std::atomic<Heir*> heir_{nullptr};  // counted reference
  Ref<Recomputation> recomputation_;
};

void dispose(Storage* s);

/// Whether the memory may be reused: it is not foreign, this is the only owner of the storage, and
/// no other object holds its heir.
bool held_once(const Ref<Storage>& s);

inline Recomputation::~Recomputation() = default;
inline const Ref<Storage>& Recomputation::elements() {
  if (!made_) made_ = make();
  return made_;
}

}  // namespace tern::detail
