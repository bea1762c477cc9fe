// The buffer of a tensor: 64-byte aligned, counted, with a version that in-place writes raise; how
// its elements can be made again, for who keeps that in their place; and who is left the elements
// by their last holder.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "tern/core/base/allocator.h"
#include "tern/core/base/intrusive.h"
#include "tern/core/base/pool.h"

namespace tern {

class Storage;

/// Makes the elements of a storage again, to the last bit (RecomputeScope, core/tape/autograd.h).
class Recipe : public Counted {
 public:
  Recipe() = default;
  virtual ~Recipe();
  Recipe(const Recipe&) = delete;
  Recipe& operator=(const Recipe&) = delete;
  /// Made at the first call, and kept as long as the recipe.
  const Ref<Storage>& elements();
  int64_t remakes = 0;  ///< recipes that it needs, one within the other, and itself

 protected:
  virtual Ref<Storage> make() const = 0;

 private:
  Ref<Storage> made_;
};
inline void dispose(Recipe* r) { delete r; }

/// Is left a storage by its last holder: who needs the elements still, but perhaps not as they are.
class Heir : public Counted, public pool::Pooled {
 public:
  Heir() = default;
  virtual ~Heir() = default;
  Heir(const Heir&) = delete;
  Heir& operator=(const Heir&) = delete;
  /// Owns `storage` from now on.
  virtual void inherit(Storage* storage) noexcept = 0;
};
inline void dispose(Heir* heir) { delete heir; }

class Storage : public Counted, public pool::Pooled {
 public:
  explicit Storage(std::size_t size) : size_(size), bytes_(size), data_(detail::allocate(bytes_)) {}
  ~Storage() { detail::deallocate(data_, bytes_); }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  void* data() const { return data_; }
  std::size_t size() const { return size_; }    ///< bytes that there is room for
  std::size_t bytes() const { return bytes_; }  ///< that the block takes
  /// Raised by every in-place write; the tape compares it with the version it saved.
  uint64_t version() const { return version_; }
  void bump_version() {
    ++version_;
    recipe_ = {};
  }
  /// Each has the other's elements, as if they had been written. Nobody may be at work on them.
  void exchange(Storage& other) {
    std::swap(size_, other.size_);
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    bump_version();
    other.bump_version();
  }
  /// How the elements, as they are, can be made again; null: it is not known.
  const Ref<Recipe>& recipe() const { return recipe_; }
  void set_recipe(Ref<Recipe> recipe) { recipe_ = std::move(recipe); }
  /// Who inherits the storage: once there is one, it stays, whatever is proposed. Threads may
  /// propose at the same time.
  Ref<Heir> propose_heir(Ref<Heir> proposed);
  Ref<Heir> heir() const { return Ref<Heir>(heir_.load(std::memory_order_acquire)); }
  Ref<Heir> take_heir();

  /// Whether a parameter had these elements once and has others now (nn::to). Who still holds them
  /// to train or average them works on nothing.
  bool retired() const { return retired_; }
  void retire() { retired_ = true; }
  /// Whether other values stand in these elements for a while (averages, for an evaluation): they
  /// are not to be trained.
  bool lent() const { return lent_; }
  void lend(bool on) { lent_ = on; }
  /// How many tensors on this buffer require a gradient: while there are any, it is not written to
  /// in grad mode, through whatever handle.
  int64_t tracked() const { return tracked_.load(std::memory_order_relaxed); }
  void track(int64_t more) { tracked_.fetch_add(more, std::memory_order_relaxed); }

 private:
  std::size_t size_, bytes_;
  void* data_;
  uint64_t version_ = 0;
  bool retired_ = false, lent_ = false;
  std::atomic<int64_t> tracked_{0};
  std::atomic<Heir*> heir_{nullptr};  // counted
  Ref<Recipe> recipe_;
};

void dispose(Storage* s);

/// Whether nobody else holds the storage or inherits it.
bool held_once(const Ref<Storage>& s);

inline Recipe::~Recipe() = default;
inline const Ref<Storage>& Recipe::elements() {
  if (!made_) made_ = make();
  return made_;
}

}  // namespace tern
