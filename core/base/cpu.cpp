// Detects the processor's name and vector level, and makes OpenBLAS choose kernels that match it.
// OpenBLAS's functions are looked up at run time, since any BLAS may be linked.
#include "tern/core/base/cpu.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <omp.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tern/core/base/threads.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace tern {
namespace {

#if defined(__x86_64__)
struct Registers {
  unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf) {
  Registers r;
  __get_cpuid_count(leaf, 0, &r.a, &r.b, &r.c, &r.d);
  return r;
}

// __builtin_cpu_supports also checks that the operating system saves the registers. Some compilers
// do not know all instructions of x86-64-v3, so MOVBE, F16C and LZCNT are read from CPUID.
VectorLevel detect_level() {
  __builtin_cpu_init();
  Registers one = cpuid(1), ext = cpuid(0x80000001);
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
            __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
            (one.c & bit_MOVBE) && (one.c & bit_F16C) && (ext.c & bit_LZCNT);
  if (!v3) return VectorLevel::kBaseline;
  bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  return v4 ? VectorLevel::kAvx512 : VectorLevel::kAvx2;
}

std::string detect_name() {
  if (cpuid(0x80000000).a < 0x80000004) return "";
  char text[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    Registers r = cpuid(0x80000002 + i);
    std::memcpy(text + 16 * i, &r, 16);
  }
  std::string s = text;
  s.erase(s.find_last_not_of(' ') + 1);
  s.erase(0, s.find_first_not_of(' '));
  return s;
}
#else
VectorLevel detect_level() { return VectorLevel::kBaseline; }
std::string detect_name() { return ""; }
#endif

/// OpenBLAS's own functions; null with another BLAS. Looked up at run time: weak symbols would stay
/// null if OpenBLAS is loaded through an alternative libblas.so.
struct OpenBlas {
  char* (*corename)() = nullptr;
  char* (*config)() = nullptr;
  void (*set_num_threads)(int) = nullptr;
  void (*quit)() = nullptr;
  void (*init)() = nullptr;

  OpenBlas() {
    find(corename, "openblas_get_corename");
    find(config, "openblas_get_config");
    find(set_num_threads, "openblas_set_num_threads");
    find(quit, "gotoblas_dynamic_quit");
    find(init, "gotoblas_dynamic_init");
  }

  std::string core() const { return corename ? corename() : ""; }
  void choose_again() const {
    quit();
    init();
  }

 private:
  template <class F>
  static void find(F& f, const char* symbol) {
    f = reinterpret_cast<F>(dlsym(RTLD_DEFAULT, symbol));
  }
};

/// Makes OpenBLAS use the kernels `wanted`; if it has none, returns false and changes nothing.
bool switch_kernels(const OpenBlas& blas, const std::string& wanted) {
  if (!blas.quit || !blas.init) return false;
  setenv("OPENBLAS_CORETYPE", wanted.c_str(), 1);
  blas.choose_again();
  bool ok = openblas_level(blas.core()) >= openblas_level(wanted);
  unsetenv("OPENBLAS_CORETYPE");
  if (!ok) blas.choose_again();
  return ok;
}

/// The first caller does the work; other callers wait for it.
const std::string& blas_kernels() {
  static const std::string kernels = detail::guard_blas();
  return kernels;
}

std::string compiler_name() {
#if defined(__clang__)
  return fmt::format("clang++ {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return "g++ " __VERSION__;
#endif
}

}  // namespace

std::string to_string(VectorLevel level) {
  if (level == VectorLevel::kAvx512) return "AVX-512";
  return level == VectorLevel::kAvx2 ? "AVX2+FMA" : "baseline";
}

namespace detail {
const CpuInfo& cpu() {
  static const CpuInfo info{detect_name(), detect_level()};
  return info;
}

VectorLevel vector_level = cpu().level;

std::string guard_blas() {
  OpenBlas blas;
  if (blas.set_num_threads) {
    int omp_threads = omp_get_max_threads();  // OpenBLAS's OpenMP build sets this to 1 as well
    blas.set_num_threads(1);
    omp_set_num_threads(omp_threads);
  }
  std::string found = blas.core();
  if (found.empty()) return "unknown";
  VectorLevel level = cpu().level;
  bool weak = openblas_level(found) < level;
  if (const char* user = std::getenv("OPENBLAS_CORETYPE"); user && *user)
    return fmt::format("{} (OPENBLAS_CORETYPE={}{})", found, user,
                       weak ? ", weaker than the processor" : "");
  if (!weak) return found;
  std::string wanted = level == VectorLevel::kAvx512 ? "SkylakeX" : "Haswell";
  if (switch_kernels(blas, wanted))
    return fmt::format("{} (chosen by tern; OpenBLAS took {})", blas.core(), found);
  fmt::print(stderr,
             "tern: OpenBLAS runs its {} kernels, but this processor has {}: matrix products will "
             "be slow; set OPENBLAS_CORETYPE={} or install an OpenBLAS built with DYNAMIC_ARCH\n",
             found, to_string(level), wanted);
  return found + " (weaker than the processor)";
}
}  // namespace detail

VectorLevelScope::VectorLevelScope(VectorLevel level) : before_(detail::vector_level) {
  detail::vector_level = std::min(level, detail::cpu().level);
}

VectorLevelScope::~VectorLevelScope() { detail::vector_level = before_; }

VectorLevel openblas_level(const std::string& corename) {
  constexpr std::array kNoAvx2 = {
      "prescott", "core2",        "katmai",     "coppermine",  "northwood",   "banias",
      "atom",     "penryn",       "dunnington", "nehalem",     "athlon",      "opteron",
      "nano",     "opteron_sse3", "barcelona",  "bobcat",      "sandybridge", "bulldozer",
      "generic",  "piledriver",   "excavator",  "steamroller", "unknown"};
  constexpr std::array kAvx2 = {"haswell", "zen"};
  std::string name = corename;
  for (char& c : name)  // std::tolower depends on the locale
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  if (std::count(kNoAvx2.begin(), kNoAvx2.end(), name)) return VectorLevel::kBaseline;
  if (std::count(kAvx2.begin(), kAvx2.end(), name)) return VectorLevel::kAvx2;
  return VectorLevel::kAvx512;
}

void blas_ready() { blas_kernels(); }

BlasScope::BlasScope() {
  blas_ready();
  omp_threads_ = omp_get_max_threads();
  omp_set_num_threads(1);
}

BlasScope::~BlasScope() { omp_set_num_threads(omp_threads_); }

BuildInfo build_details() {
  BuildInfo info;
  info.cpu = detail::cpu().name;
  info.vector = to_string(detail::vector_level);
  info.blas_kernels = blas_kernels();
  OpenBlas blas;
  info.blas_config = blas.config ? blas.config() : "";
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": name and version are the first two words.
  size_t space = info.blas_config.find(' ');
  info.blas = space == std::string::npos
                  ? "BLAS"
                  : info.blas_config.substr(0, info.blas_config.find(' ', space + 1));
  info.compiler = compiler_name();
  info.threads = num_threads();
  return info;
}

}  // namespace tern
