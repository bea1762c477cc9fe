// The buffer of a tensor: 64-byte aligned, counted, with a version that in-place writes raise; and
// how its elements can be made again, for who keeps that in their place.
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

 protected:
  virtual Ref<Storage> make() const = 0;

 private:
  Ref<Storage> made_;
};
inline void dispose(Recipe* r) { delete r; }

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
  void bump_version() {
    ++version_;
    recipe_ = {};
  }
  /// Each has the other's elements, as if they had been written. Nobody may be at work on them.
  void exchange(Storage& other) {
    std::swap(bytes_, other.bytes_);
    std::swap(data_, other.data_);
    bump_version();
    other.bump_version();
  }
  /// How the elements, as they are, can be made again; null: it is not known.
  const Ref<Recipe>& recipe() const { return recipe_; }
  void set_recipe(Ref<Recipe> recipe) { recipe_ = std::move(recipe); }

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
  std::size_t bytes_;
  void* data_;
  uint64_t version_ = 0;
  bool retired_ = false, lent_ = false;
  std::atomic<int64_t> tracked_{0};
  Ref<Recipe> recipe_;
};

inline void dispose(Storage* s) { delete s; }

inline Recipe::~Recipe() = default;
inline const Ref<Storage>& Recipe::elements() {
  if (!made_) made_ = make();
  return made_;
}

}  // namespace tern
