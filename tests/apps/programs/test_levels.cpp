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
  for (const auto& [level, name, step] :
       std::vector<std::tuple<std::string, VectorLevel, std::string>>{
           {"baseline", VectorLevel::kBaseline, "Prescott"}, {"avx2", VectorLevel::kAvx2, ""}}) {
    CAPTURE(level);
    if (has <= name) continue;
    const std::string said = run_program("ntm", {"--version"}, at_most(level)).out;
    CHECK(contains(said, "\nvector code: " + to_string(name) +
                             " (lowered by TERN_MAX_LEVEL; the processor has "));
    if (contains(said, "chosen by tern")) CHECK(contains(said, "kernels " + step));
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
