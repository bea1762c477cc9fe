// TERN_MAX_LEVEL: the programs use lower vector instructions, and compute the same bits.
#include <doctest/doctest.h>

#include <set>

#include "tern/core/base/cpu.h"
#include "tern/tests/apps/programs/run_program.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_levels {
namespace {

RunOptions at_most(const std::string& level, const std::string& folder = ".") {
  return {.folder = folder, .environment = {{"TERN_MAX_LEVEL", level}}};
}

TEST_CASE("programs: TERN_MAX_LEVEL lowers the vector level, and --version says so") {
  const VectorLevel has = tern::detail::cpu().level;
  const std::string plain = run_program("ntm", {"--version"}, at_most("")).out;
  CHECK(run_program("ntm", {"--version"}, at_most("amx")).out == plain);
  CHECK_FALSE(contains(plain, "lowered"));
  for (const VectorLevel level : {VectorLevel::kBaseline, VectorLevel::kAvx2}) {
    if (has <= level) continue;
    const std::string said = run_program("ntm", {"--version"}, at_most(to_string(level))).out;
    CAPTURE(said);
    CHECK(contains(said, "\nvector code: " + to_string(level) +
                             " (lowered by TERN_MAX_LEVEL; the processor has "));
    // OpenBLAS follows, unless the user or its build decides.
    const size_t kernels = said.find(", kernels ") + 10;
    if (!contains(said, "OPENBLAS_CORETYPE") && !contains(said, "not lowered") &&
        !contains(said, "kernels unknown"))
      CHECK(openblas_level(said.substr(kernels, said.find_first_of(" \n", kernels) - kernels)) ==
            level);
  }
  const Ran wrong = run_program("ntm", {"--version"}, at_most("avx3"));
  CHECK(wrong.code == 2);
  CHECK(wrong.out == "");
  CHECK(wrong.err ==
        "tern: TERN_MAX_LEVEL is 'avx3'; it must be one of baseline, avx2, avx512, avx512_bf16, "
        "amx\n");
}

TEST_CASE("programs: weights have the same bits at every level from AVX2 on, in f32 and bf16") {
  if (tern::detail::cpu().level == VectorLevel::kBaseline) return;
  for (const char* precision : {"f32", "bf16"}) {
    CAPTURE(precision);
    std::set<std::string> weights;
    for (const char* level : {"avx2", "avx512", "avx512_bf16", "amx"}) {
      CAPTURE(level);
      TempDir dir;
      const Ran ran =
          run_program("train_cifar",
                      {"--model", "gmlp-small", "--limit", "24", "--batch", "8", "--epochs", "1",
                       "--threads", "1", "--out", "run", "--precision", precision},
                      at_most(level, dir.path()));
      REQUIRE_MESSAGE(ran.code == 0, ran.err);
      weights.insert(read_file(dir / "run/model.safetensors"));
    }
    CHECK(weights.size() == 1);
  }
}

}  // namespace
}  // namespace tern::test::test_levels
