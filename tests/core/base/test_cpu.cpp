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
