// The environment variable TERN_MAX_LEVEL: the highest vector instructions that tern uses.
// Inside of core only.
#pragma once

#include <string>

namespace tern::detail {

/// Steps of vector instructions, each with those before it.
enum class MaxLevel : int {
  baseline = 0,     ///< those of every processor of the architecture (SSE2, NEON)
  avx2 = 1,         ///< x86-64-v3
  avx512 = 2,       ///< x86-64-v4
  avx512_bf16 = 3,  ///< also AVX512_BF16 and VNNI
  amx = 4,
};
/// As build_info() names it: "baseline" or "NEON", "AVX2+FMA", "AVX-512", "AVX512_BF16", "AMX".
std::string to_string(MaxLevel level);

/// The step of a name: baseline, avx2, avx512, avx512_bf16, amx, or as to_string() writes them.
/// Error for any other text; it lists the names.
MaxLevel max_level(const std::string& name);

/// What TERN_MAX_LEVEL says; amx if it is not set or is empty. Read before main(), where the vector
/// level is chosen: so an unknown value ends the process with a message and exit code 2.
MaxLevel max_level();

}  // namespace tern::detail
