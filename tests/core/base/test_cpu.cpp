// The processor's vector level, and the choice of OpenBLAS kernels that are not weaker than it.
#include <dlfcn.h>
#include <doctest/doctest.h>
#include <omp.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "tern/core/base/build_info.h"
#include "tern/core/base/cpu.h"
#include "tern/core/base/error.h"
#include "tern/core/base/max_level.h"
#include "tern/core/base/simd.h"
#include "tern/core/base/threads.h"

namespace tern::test_cpu {

TEST_CASE("cpu: kernel sets of OpenBLAS are ranked by their vector unit") {
  CHECK(openblas_level("Prescott") == VectorLevel::kBaseline);
  CHECK(openblas_level("Sandybridge") == VectorLevel::kBaseline);
  CHECK(openblas_level("Haswell") == VectorLevel::kAvx2);
  CHECK(openblas_level("ZEN") == VectorLevel::kAvx2);
  CHECK(openblas_level("SkylakeX") == VectorLevel::kAvx512);
  CHECK(openblas_level("Cooperlake") == VectorLevel::kAvx512);
  CHECK(openblas_level("a kernel set of the future") == VectorLevel::kAvx512);
}

TEST_CASE("cpu: BLAS is never weaker than the processor") {
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) callers.emplace_back([] { blas_ready(); });
  for (auto& t : callers) t.join();
  BuildInfo b = build_details();
  CHECK(b.blas_kernels == build_details().blas_kernels);
  CHECK(b.threads == num_threads());
  CHECK(build_info().find(b.blas_kernels) != std::string::npos);
  std::string core = b.blas_kernels.substr(0, b.blas_kernels.find(' '));
  bool dynamic = b.blas_config.find("DYNAMIC_ARCH") != std::string::npos;
  if (dynamic && !std::getenv("OPENBLAS_CORETYPE"))
    CHECK_MESSAGE(openblas_level(core) >= detail::cpu().level, "kernels: " << b.blas_kernels);
}

TEST_CASE("cpu: the level can be lowered for a scope, never raised") {
  VectorLevel best = detail::vector_level;
  CHECK(best == detail::cpu().level);
  {
    VectorLevelScope scope(VectorLevel::kBaseline);
    CHECK(detail::vector_level == VectorLevel::kBaseline);
    VectorLevelScope inner(VectorLevel::kAvx512);
    CHECK(detail::vector_level == detail::cpu().level);
  }
  CHECK(detail::vector_level == best);
}

TEST_CASE("cpu: weak OpenBLAS kernels are replaced, the user's choice is kept") {
  using Function = void (*)();
  auto quit = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "gotoblas_dynamic_quit"));
  auto init = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, "gotoblas_dynamic_init"));
  if (!quit || !init || detail::cpu().level == VectorLevel::kBaseline) return;
  const char* variable = "OPENBLAS_CORETYPE";
  const char* set = std::getenv(variable);
  std::string before = set ? set : "";
  auto choose = [&] {
    quit();
    init();
  };
  setenv(variable, "Prescott", 1);
  choose();
  std::string kept = detail::guard_blas();
  CHECK(kept.find("Prescott (OPENBLAS_CORETYPE=Prescott") == 0);
  unsetenv(variable);  // as if OpenBLAS had chosen Prescott itself
  std::string chosen = detail::guard_blas();
  CHECK(chosen.find("(chosen by tern; OpenBLAS took Prescott)") != std::string::npos);
  CHECK(openblas_level(chosen.substr(0, chosen.find(' '))) == detail::cpu().level);
  CHECK(std::getenv(variable) == nullptr);
  if (!before.empty()) setenv(variable, before.c_str(), 1);
  choose();
}

TEST_CASE(
    "cpu: OpenBLAS kernels that the processor cannot run, or that are too high, are replaced") {
  using detail::kernels_instead;
  constexpr VectorLevel kBaseline = VectorLevel::kBaseline, kAvx2 = VectorLevel::kAvx2,
                        kAvx512 = VectorLevel::kAvx512;
  const auto on = [](VectorLevel level, bool limited = false) {
    return CpuInfo{.level = level, .limited = limited};
  };
  for (const char* name : {"Opteron", "Opteron_SSE3", "Athlon"}) {
    CHECK(kernels_instead(name, on(kBaseline), false) == "Prescott");
    CHECK(kernels_instead(name, on(kBaseline), true) == "");
    CHECK(kernels_instead(name, on(kAvx2), false) == "Haswell");
  }
  CHECK(kernels_instead("Barcelona", on(kBaseline), false) == "");
  CHECK(kernels_instead("Prescott", on(kAvx512), false) == "SkylakeX");
  CHECK(kernels_instead("Zen", on(kAvx2), false) == "");
  CHECK(kernels_instead("SkylakeX", on(kAvx2), false) == "");  // OpenBLAS may know more than tern
  CHECK(kernels_instead("SkylakeX", on(kAvx2, true), false) == "Haswell");
  CHECK(kernels_instead("Cooperlake", on(kBaseline, true), false) == "Prescott");
  CHECK(kernels_instead("Cooperlake", on(kAvx512, true), false) == "");
}

TEST_CASE("cpu: TERN_MAX_LEVEL takes its names and those that build_info() shows") {
  using detail::MaxLevel;
  CHECK(detail::max_level("baseline") == MaxLevel::baseline);
  CHECK(detail::max_level("avx2") == MaxLevel::avx2);
  CHECK(detail::max_level("avx512_bf16") == MaxLevel::avx512_bf16);
  for (MaxLevel level :
       {MaxLevel::baseline, MaxLevel::avx2, MaxLevel::avx512, MaxLevel::avx512_bf16, MaxLevel::amx})
    CHECK(detail::max_level(detail::to_string(level)) == level);
  for (const char* unknown : {"", "avx", "AVX2", "avx512 ", "3"})
    CHECK_THROWS_WITH_AS(detail::max_level(unknown),
                         doctest::Contains("it must be one of baseline, avx2, avx512, avx512_bf16, "
                                           "amx"),
                         Error);
}

TEST_CASE("cpu: ARM processors are named by the numbers in /proc/cpuinfo") {
  const std::string before = "processor\t: 0\nBogoMIPS\t: 50.00\nCPU implementer\t: ";
  CHECK(detail::arm_name(before + "0x41\nCPU architecture: 8\nCPU variant\t: 0x3\n"
                                  "CPU part\t: 0xd0c\nCPU revision\t: 1\n") == "Neoverse N1");
  CHECK(detail::arm_name(before + "0x99\nCPU part\t: 0x123\n") ==
        "ARM processor (implementer 0x99, part 0x123)");
  CHECK(detail::arm_name("") == "");
  CHECK(detail::arm_name("CPU implementer") == "");
}

TEST_CASE("cpu: BlasScope limits OpenMP to one thread and restores the number") {
  int before = omp_get_max_threads();
  omp_set_num_threads(3);
  {
    BlasScope scope;
    CHECK(omp_get_max_threads() == 1);
  }
  CHECK(omp_get_max_threads() == 3);
  omp_set_num_threads(before);
}

}  // namespace tern::test_cpu
