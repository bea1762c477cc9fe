// The processor's features, and a guard against BLAS choosing too weak kernels.
#pragma once

#include <string>

#include "tern/core/base/restored.h"

namespace tern {

/// Vector units that tern compiles code for. Each includes the previous ones.
enum class VectorLevel : int {
  kBaseline = 0,  // available on every processor of the architecture (SSE2, NEON)
  kAvx2 = 1,      // x86-64-v3: AVX2, FMA, BMI
  kAvx512 = 2,    // x86-64-v4: AVX-512 F, BW, CD, DQ, VL
};

/// "baseline" (on aarch64 "NEON"), "AVX2+FMA", "AVX-512".
std::string to_string(VectorLevel level);

struct CpuInfo {
  std::string name = {};  // as reported by the processor; empty if unknown
  /// The highest level that it has and that the environment variable TERN_MAX_LEVEL allows:
  /// baseline, avx2, avx512, avx512_bf16 or amx. For tests, bug reports and reproduction: tern then
  /// behaves as on a processor without the higher instructions, in its own code and in the kernels
  /// that OpenBLAS uses.
  VectorLevel level = VectorLevel::kBaseline;
  std::string highest = {};  // of its vector instructions, without TERN_MAX_LEVEL: "AMX"
  bool limited = false;      // TERN_MAX_LEVEL is below `highest`
};

namespace detail {
/// The processor, determined once. The vector level includes only units that the operating system
/// has enabled. (Not in namespace tern, since programs have a cpu() of their own.)
const CpuInfo& cpu();

/// The level that simd() uses: one load, no guard. kBaseline until core's static initialisation.
/// Not const, so that tests can run a kernel at every level.
extern VectorLevel vector_level;

/// Does the work of blas_ready() each time it is called; returns BuildInfo::blas_kernels.
std::string guard_blas();

/// The OpenBLAS kernels that a processor should use instead of those that OpenBLAS took; empty if
/// it may keep them.
std::string kernels_instead(const std::string& taken, const CpuInfo& cpu, bool has_3dnow);

/// "Neoverse N1": the name of an ARM processor, of which the text of /proc/cpuinfo has numbers.
std::string arm_name(const std::string& cpuinfo);
}  // namespace detail

/// While in scope, simd() code runs at `level`, or at the processor's level if that is lower. For
/// tests and measurements; affects all threads.
class VectorLevelScope {
 public:
  explicit VectorLevelScope(VectorLevel level);
  ~VectorLevelScope();

 private:
  detail::Restored<VectorLevel> level_;
};

/// The vector unit that an OpenBLAS kernel set ("Haswell", "Prescott", ...) uses. Unknown names
/// count as kAvx512: kernels newer than this table should stay.
VectorLevel openblas_level(const std::string& corename);

/// Prepares BLAS; call it before any BLAS call. The first call does the work, later ones cost one
/// load. Any thread may call it.
///
/// OpenBLAS chooses kernels by the processor's model number, and falls back to SSE3 kernels for
/// unknown models. If its choice is weaker than the processor, the first call sets
/// OPENBLAS_CORETYPE and makes OpenBLAS choose again. If that fails, it warns once on standard
/// error and says what to do. It does not change the user's own OPENBLAS_CORETYPE. It also chooses
/// other kernels where TERN_MAX_LEVEL asks for lower ones, and where OpenBLAS's need 3DNow!, which
/// emulated processors lack. It keeps OpenBLAS and BLIS to the calling thread.
///
/// REQUIRES: no other thread is inside a BLAS call during the first call.
void blas_ready();

/// Put this around BLAS calls: it prepares BLAS and keeps it to the calling thread, since tern
/// tiles products itself. (OpenBLAS's OpenMP build takes its thread count from OpenMP; the scope
/// restores this thread's count at its end.)
class BlasScope {
 public:
  BlasScope();
  ~BlasScope();
  BlasScope(const BlasScope&) = delete;
  BlasScope& operator=(const BlasScope&) = delete;

 private:
  int omp_threads_;
};

/// The software and hardware in use, for logs and bug reports.
struct BuildInfo {
  std::string cpu;           // processor name
  std::string vector;        // vector unit in use: "AVX-512"; says if TERN_MAX_LEVEL lowered it
  std::string highest;       // the highest vector instructions that the processor has: "AMX"
  std::string blas;          // "OpenBLAS 0.3.21", or "BLAS" if unknown
  std::string blas_config;   // OpenBLAS's own description of its build
  std::string blas_kernels;  // "SkylakeX (chosen by tern; OpenBLAS took Prescott)"
  std::string compiler;      // "g++ 12.2.0"
  int threads = 1;
};

/// Returns these details, after calling blas_ready().
BuildInfo build_details();

}  // namespace tern
