// Counts the floating-point operations of products, for profiles. Inside of core only.
#pragma once

#include <cstdint>

namespace tern::detail {

/// Multiplications and additions of the kernels that this thread called: matrix products,
/// convolutions, attention. Elementwise passes do not count.
inline thread_local int64_t counted_flops = 0;

/// Counts `flops` for a kernel and ignores what its inner kernels count.
class CountFlops {
 public:
  explicit CountFlops(int64_t flops) : after_(counted_flops + flops) {}
  ~CountFlops() { counted_flops = after_; }
  CountFlops(const CountFlops&) = delete;
  CountFlops& operator=(const CountFlops&) = delete;

 private:
  int64_t after_;
};

}  // namespace tern::detail
