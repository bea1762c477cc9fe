// Ops without their arithmetic (PyTorch's "meta" device, JAX's eval_shape): what a program would
// build and hold, before anything of it is computed or allocated.
//
//   ShapeOnlyScope scope;
//   models::Gmlp model(options, rng);              // of 50 million weights, and no memory
//   Tensor y = model(empty({512, 3, 32, 32}));     // shapes and types are checked as ever
//   backward(sum(y));                              // the whole tape runs
//   scope.peak_bytes();                            // what it would have taken
//
// In the scope, and in its thread alone:
// - tensors and working memory get address space in place of memory, in blocks as large as the
//   allocator's. What nobody writes to costs nothing and reads as 0;
// - parallel loops (core/base/threads.h) do not run their bodies: every kernel whose work grows
//   with the model does nothing. Tensors from before keep their elements, whatever is written to
//   them by an op in place; what an op makes reads as 0. Short serial loops may run: on zeros;
// - products are counted (Profile's flops) as if they were computed.
// What depends on values therefore sees zeros, generators may move on, and versions, gradients and
// counters of steps are as after the real thing: summary() (train/summary.h) puts back a model's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/core/base/allocation_listener.h"

namespace tern {
namespace detail {

class Reservation;
/// Where this thread's blocks come from in a ShapeOnlyScope; null outside of one.
inline thread_local constinit Reservation* reserving = nullptr;
/// A block of address space. REQUIRES: reserving.
void* reserve(std::size_t bytes);
/// Gives it back; false if `p` is real memory.
bool release(void* p, std::size_t bytes) noexcept;

}  // namespace detail

/// Scopes nest; blocks count in the innermost. Tensors may outlive it: they are then full of zeros
/// on pages that come as they are touched. Error where the system refuses address space.
class ShapeOnlyScope {
 public:
  /// `listener` is told of the blocks of this scope, as long as it lives; null: nobody.
  explicit ShapeOnlyScope(detail::AllocationListener* listener = nullptr);
  ~ShapeOnlyScope();
  ShapeOnlyScope(const ShapeOnlyScope&) = delete;
  ShapeOnlyScope& operator=(const ShapeOnlyScope&) = delete;

  int64_t live_bytes() const;  ///< of blocks of this scope
  int64_t peak_bytes() const;  ///< the most there have been

 private:
  detail::Reservation* own_;
  detail::Reservation* outer_;
};

}  // namespace tern
