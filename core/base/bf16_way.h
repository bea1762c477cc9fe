// How this processor computes products in bf16 (precision.h).
#pragma once

#include <string>
#include <vector>

namespace tern {

/// What computes bf16 products. All give the same bits.
enum class Bf16Way : int {
  portable = 0,     ///< fmaf() by the element: for processors without FMA, and slow
  avx2 = 1,         ///< fused multiplications of rounded f32
  avx512 = 2,       ///< the same with 16 lanes
  avx512_bf16 = 3,  ///< VDPBF16PS: two products an instruction
  amx = 4,          ///< TDPBF16PS: 16 x 16 sums of 32 products
};
std::string to_string(Bf16Way way);

/// The ways that this processor has, the fastest last; those above the vector level in use (cpu.h)
/// are left out.
std::vector<Bf16Way> bf16_ways();
/// The way in use: the fastest, or that of a Bf16WayScope.
Bf16Way bf16_way();
/// Its name; and that it is slower than f32 where it is.
std::string bf16_products();

/// Has products computed by `way`, in all threads, while in scope. For tests and measurements.
class Bf16WayScope {
 public:
  explicit Bf16WayScope(Bf16Way way);
  ~Bf16WayScope();
  Bf16WayScope(const Bf16WayScope&) = delete;
  Bf16WayScope& operator=(const Bf16WayScope&) = delete;

 private:
  int before_;
};

}  // namespace tern
