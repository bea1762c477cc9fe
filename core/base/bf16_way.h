// Ways to compute bf16 products on this processor (precision.h).
#pragma once

#include <string>
#include <vector>

namespace tern {

/// How bf16 products are computed. All ways give the same bits.
enum class Bf16Way : int {
  portable,     ///< fmaf() per element: slow, for processors without FMA
  neon,         ///< FMA instructions on rounded f32, 4 lanes, on aarch64
  avx2,         ///< the same with 8 lanes
  avx512,       ///< the same with 16 lanes
  avx512_bf16,  ///< VDPBF16PS: two products per instruction; Intel's are slower than avx512
  amx,          ///< TDPBF16PS: 16 x 16 sums of 32 products
};
std::string to_string(Bf16Way way);

/// The ways that this processor has, fastest last. Leaves out ways above the vector level in use
/// (cpu.h).
std::vector<Bf16Way> bf16_ways();
/// The way in use: the fastest one, or the one that a Bf16WayScope sets.
Bf16Way bf16_way();
/// The same for a matrix that is packed once and read many times: a way with bfloat16 instructions
/// if there is one, since it packs bfloat16, and the others f32.
Bf16Way bf16_packing_way();
/// Its name, with a remark if it is slower than f32.
std::string bf16_products();

/// While in scope, all threads compute bf16 products by `way`. For tests and measurements.
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
