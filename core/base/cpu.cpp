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
#include <fstream>
#include <iterator>

#include "tern/core/base/max_level.h"
#include "tern/core/base/threads.h"
#include "tern/core/base/utf8.h"

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

detail::MaxLevel detect_highest() {
  const auto level = static_cast<detail::MaxLevel>(detect_level());
  Registers seven, one;
  __get_cpuid_count(7, 0, &seven.a, &seven.b, &seven.c, &seven.d);
  __get_cpuid_count(7, 1, &one.a, &one.b, &one.c, &one.d);
  if (level < detail::MaxLevel::avx512 || !(one.a & (1u << 5))) return level;  // AVX512_BF16
  return seven.d & (1u << 22) ? detail::MaxLevel::amx : detail::MaxLevel::avx512_bf16;
}

bool has_3dnow() { return cpuid(0x80000001).d & (1u << 31); }

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
detail::MaxLevel detect_highest() { return detail::MaxLevel::baseline; }
bool has_3dnow() { return false; }
std::string detect_name() {
  std::ifstream in("/proc/cpuinfo");
  return detail::arm_name({std::istreambuf_iterator<char>(in), {}});
}
#endif

CpuInfo detect_cpu() {
  const detail::MaxLevel highest = detect_highest(), most = detail::max_level();
  return {
      detect_name(),
      std::min(detect_level(), static_cast<VectorLevel>(std::min(most, detail::MaxLevel::avx512))),
      to_string(highest), most < highest};
}

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
  bool ok = lower_ascii(blas.core()) == lower_ascii(wanted);
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
  return detail::to_string(static_cast<detail::MaxLevel>(level));
}

namespace detail {
const CpuInfo& cpu() {
  static const CpuInfo info = detect_cpu();
  return info;
}

VectorLevel vector_level = cpu().level;

std::string kernels_instead(const std::string& taken, const CpuInfo& cpu, bool has_3dnow) {
  constexpr std::array kNeed3dnow = {"athlon", "opteron", "opteron_sse3"};
  const VectorLevel level = openblas_level(taken);
  if (level == VectorLevel::kBaseline && cpu.level == level)
    return has_3dnow || !std::count(kNeed3dnow.begin(), kNeed3dnow.end(), lower_ascii(taken))
               ? ""
               : "Prescott";
  if (level == cpu.level || (level > cpu.level && !cpu.limited)) return "";
  if (cpu.level == VectorLevel::kAvx512) return "SkylakeX";
  return cpu.level == VectorLevel::kAvx2 ? "Haswell" : "Prescott";
}

std::string arm_name(const std::string& cpuinfo) {
  // The numbers of the designer and of the part, as in the tables of lscpu.
  struct Part {
    const char *implementer, *part, *name;
  };
  constexpr Part kParts[] = {{"0x41", "0xd03", "Cortex-A53"},    {"0x41", "0xd07", "Cortex-A57"},
                             {"0x41", "0xd08", "Cortex-A72"},    {"0x41", "0xd0b", "Cortex-A76"},
                             {"0x41", "0xd0c", "Neoverse N1"},   {"0x41", "0xd40", "Neoverse V1"},
                             {"0x41", "0xd49", "Neoverse N2"},   {"0x41", "0xd4f", "Neoverse V2"},
                             {"0x46", "0x001", "Fujitsu A64FX"}, {"0x48", "0xd01", "Kunpeng 920"},
                             {"0x51", "0x001", "Oryon"},         {"0xc0", "0xac3", "Ampere-1"}};
  const auto value = [&](const char* key) {
    const size_t line = cpuinfo.find(key),
                 colon = cpuinfo.find(": ", std::min(line, cpuinfo.size()));
    if (line == cpuinfo.npos || colon == cpuinfo.npos) return std::string();
    return cpuinfo.substr(colon + 2, cpuinfo.find('\n', colon) - colon - 2);
  };
  const std::string implementer = value("CPU implementer"), part = value("CPU part");
  for (const Part& p : kParts)
    if (implementer == p.implementer && part == p.part) return p.name;
  if (implementer.empty()) return "";
  return fmt::format("ARM processor (implementer {}, part {})", implementer, part);
}

std::string guard_blas() {
  OpenBlas blas;
  // BLIS takes its number of threads from the environment; it ignores omp_set_num_threads().
  if (void* const alone = dlsym(RTLD_DEFAULT, "bli_thread_set_num_threads"))
    reinterpret_cast<void (*)(long)>(alone)(1);
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
  const std::string wanted = kernels_instead(found, cpu(), has_3dnow());
  if (wanted.empty()) return found;
  if (switch_kernels(blas, wanted))
    return fmt::format("{} (chosen by tern; OpenBLAS took {})", blas.core(), found);
  fmt::print(
      stderr,
      "tern: OpenBLAS runs its {} kernels, but {}; set OPENBLAS_CORETYPE={} or install an "
      "OpenBLAS built with DYNAMIC_ARCH\n",
      found,
      weak ? fmt::format("this processor has {}: matrix products will be slow", to_string(level))
      : cpu().limited ? "TERN_MAX_LEVEL asks for lower ones"
                      : "this processor lacks their instructions (3DNow!)",
      wanted);
  return found + (weak ? " (weaker than the processor)" : " (not lowered)");
}
}  // namespace detail

VectorLevelScope::VectorLevelScope(VectorLevel level)
    : level_(detail::vector_level, std::min(level, detail::cpu().level)) {}
VectorLevelScope::~VectorLevelScope() = default;

VectorLevel openblas_level(const std::string& corename) {
  constexpr std::array kNoAvx2 = {
      "prescott", "core2",        "katmai",     "coppermine",  "northwood",   "banias",
      "atom",     "penryn",       "dunnington", "nehalem",     "athlon",      "opteron",
      "nano",     "opteron_sse3", "barcelona",  "bobcat",      "sandybridge", "bulldozer",
      "generic",  "piledriver",   "excavator",  "steamroller", "unknown"};
  constexpr std::array kAvx2 = {"haswell", "zen"};
  const std::string name = lower_ascii(corename);
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
  info.highest = detail::cpu().highest;
  if (detail::cpu().limited)
    info.vector += " (lowered by TERN_MAX_LEVEL; the processor has " + info.highest + ")";
  info.blas_kernels = blas_kernels();
  OpenBlas blas;
  info.blas_config = blas.config ? blas.config() : "";
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...": name and version are the first two words.
  size_t space = info.blas_config.find(' ');
  info.blas = space == std::string::npos
                  ? "BLAS"
                  : info.blas_config.substr(0, info.blas_config.find(' ', space + 1));
  if (void* const blis = dlsym(RTLD_DEFAULT, "bli_info_get_version_str"))
    info.blas = fmt::format("BLIS {}", reinterpret_cast<const char* (*)()>(blis)());
  info.compiler = compiler_name();
  info.threads = num_threads();
  return info;
}

}  // namespace tern
