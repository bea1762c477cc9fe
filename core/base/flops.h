// Counts the floating-point operations of products, for profiles. Inside of core only.
#pragma once

#include <cstdint>

namespace tern::detail {

/// Multiplications and additions that this thread has asked kernels for: matrix products,
/// convolutions, attention. Passes over elements do not count.
inline thread_local int64_t counted_flops = 0;

/// Counts `flops` for a kernel, whatever the kernels that it is made of count.
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
