// Flags that every training program refuses, and why.
#include <doctest/doctest.h>

#include "tern/core/base/error.h"
#include "tern/tests/apps/training/in_process.h"

namespace tern::test::test_flags {

TEST_CASE("flags: unknown flags, wrong values and contradictions are refused by every program") {
  const DataFolder dir;  // train_cifar chooses its recipe by the data before it judges the flags
  for (const Training& t : kPrograms) {
    const auto refused = [](const std::string& line, const std::string& why) {
      CAPTURE(line);
      CHECK_THROWS_WITH_AS(program_of(line), doctest::Contains(why.c_str()), Error);
    };
    for (const auto& [flags, why] : std::vector<std::pair<std::string, std::string>>{
             {" --no-such-flag", "no-such-flag"},
             {" --lr 0", "--lr"},
             {" --lr nan", "--lr"},
             {" --seed -1", "--seed"},
             {" --optimizer adma", "adma"},
             {" --recompute some", "--recompute"},
             {" --optimizer-bits 16", "16; 32 or 8"},
             {" --optimizer lion --optimizer-bits 8", "lion keeps 32"},
             {" --clip 1 --step-in-backward", "--clip 1 needs the norm of all of them"},
             {" --clip 0 --step-in-backward --accumulate 2",
              "--accumulate 2 adds those of several batches"}})
      refused(t.start(1, flags), why);
    for (const std::string flag : {"--lr 1", "--step-in-backward", "--out other", "--dry-run"})
      refused(t.resume() + " " + flag, flag.substr(0, flag.find(' ')));
  }
}

}  // namespace tern::test::test_flags
