// Runs ops without arithmetic (PyTorch's "meta" device, JAX's eval_shape), to see which tensors a
// program would create and keep, before it computes or allocates anything.
//
//   ShapeOnlyScope scope;
//   models::Gmlp model(options, rng);              // 50 million weights, no memory
//   Tensor y = model(empty({512, 3, 32, 32}));     // checks shapes and types as usual
//   backward(sum(y));                              // the whole tape runs
//   scope.peak_bytes();                            // the memory that it would have needed
//
// In the scope, for its thread only:
// - Tensors and working memory get address space instead of memory, in blocks of the allocator's
//   sizes. Untouched pages cost nothing and read as 0.
// - Parallel loops (core/base/threads.h) skip their bodies, so every kernel whose work grows with
//   the model does nothing. Tensors from before keep their elements, even under in-place ops.
//   Results of ops read as 0. Short serial loops may run, on zeros.
// - Products are counted (Profile's flops) as if they were computed.
// So code that depends on values sees zeros, and generators may advance. Versions, gradients and
// step counters change as in a real run; summary() (train/summary.h) restores a model's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tern/core/base/allocation_listener.h"

namespace tern {
namespace detail {

class Reservation;
/// The source of this thread's blocks in a ShapeOnlyScope, else null.
inline thread_local constinit Reservation* reserving = nullptr;
/// Returns a block of address space. REQUIRES: reserving.
void* reserve(std::size_t bytes);
/// Frees it; returns false if `p` is real memory.
bool release(void* p, std::size_t bytes) noexcept;

}  // namespace detail

/// Scopes nest; blocks belong to the innermost. Tensors may outlive the scope; their pages are then
/// real zeros once touched. Error if the system refuses address space.
class ShapeOnlyScope {
 public:
  /// `listener` receives the blocks of this scope until the scope ends. Null: no listener.
  [[nodiscard]] explicit ShapeOnlyScope(detail::AllocationListener* listener = nullptr);
  ~ShapeOnlyScope();
  ShapeOnlyScope(const ShapeOnlyScope&) = delete;
  ShapeOnlyScope& operator=(const ShapeOnlyScope&) = delete;

  int64_t live_bytes() const;  ///< of this scope's blocks
  int64_t peak_bytes() const;  ///< the largest so far

 private:
  detail::Reservation* own_;
  detail::Reservation* outer_;
};

}  // namespace tern
