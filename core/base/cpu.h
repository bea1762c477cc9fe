// What the processor can do, and the guard that keeps BLAS from running on weaker kernels.
#pragma once

#include <string>

namespace tern {

/// Vector units that tern compiles code for, each including the ones before it.
enum class VectorLevel : int {
  kBaseline = 0,  // what every processor of the architecture has (SSE2, NEON)
  kAvx2 = 1,      // x86-64-v3: AVX2, FMA, BMI
  kAvx512 = 2,    // x86-64-v4: AVX-512 F, BW, CD, DQ, VL
};

/// "baseline", "AVX2+FMA", "AVX-512".
std::string to_string(VectorLevel level);

struct CpuInfo {
  std::string name;  // as the processor calls itself; empty where it cannot be asked
  VectorLevel level = VectorLevel::kBaseline;
};

namespace detail {
/// The processor this process runs on; asked once. The level counts only what the operating
/// system has switched on. (Not in tern, where programs have a cpu() of their own.)
const CpuInfo& cpu();

/// What simd() uses: one load, no guard. Baseline until the static initialisation of core has run.
/// Not const so that tests can run one kernel at every level.
extern VectorLevel vector_level;

/// The work of blas_ready(), without the "once"; returns BuildInfo::blas_kernels.
std::string guard_blas();
}  // namespace detail

/// Runs simd() code at `level` (or at what the processor can do, if that is less) while in scope.
/// For tests and measurements; other threads see it too.
class VectorLevelScope {
 public:
  explicit VectorLevelScope(VectorLevel level);
  ~VectorLevelScope();
  VectorLevelScope(const VectorLevelScope&) = delete;
  VectorLevelScope& operator=(const VectorLevelScope&) = delete;

 private:
  VectorLevel before_;
};

/// The vector unit that an OpenBLAS kernel set ("Haswell", "Prescott", ...) uses. A name that is
/// not known counts as kAvx512: kernels newer than this table are not ours to replace.
VectorLevel openblas_level(const std::string& corename);

/// Makes BLAS ready; whoever calls BLAS calls this first. The first call does the work, later ones
/// cost one load; any thread may call it.
///
/// OpenBLAS chooses kernels by the processor's model number and falls back to SSE3 ones for a
/// model that it does not know. Where its choice is weaker than the processor, the first call sets
/// OPENBLAS_CORETYPE and has OpenBLAS choose again; where that fails it warns once on standard
/// error and says what to do. An OPENBLAS_CORETYPE set by the user is left alone, and so is a BLAS
/// other than OpenBLAS.
///
/// REQUIRES: no BLAS call is running in another thread during the first call.
void blas_ready();

/// Held around calls of BLAS: makes it ready and keeps it to the calling thread, since tern tiles
/// products itself. (OpenBLAS's OpenMP build asks OpenMP for its threads; what this thread had set
/// there comes back at the end of the scope.)
class BlasScope {
 public:
  BlasScope();
  ~BlasScope();
  BlasScope(const BlasScope&) = delete;
  BlasScope& operator=(const BlasScope&) = delete;

 private:
  int omp_threads_;
};

/// What runs here, for logs and bug reports.
struct BuildInfo {
  std::string cpu;           // processor name
  std::string vector;        // vector unit in use: "AVX-512"
  std::string blas;          // "OpenBLAS 0.3.21", or "BLAS" where it does not say
  std::string blas_config;   // OpenBLAS's own description of its build
  std::string blas_kernels;  // "SkylakeX (chosen by tern; OpenBLAS took Prescott)"
  std::string compiler;      // "g++ 12.2.0"
  int threads = 1;
};

/// Calls blas_ready().
BuildInfo build_details();

/// build_details() in one line.
std::string build_info();

}  // namespace tern
