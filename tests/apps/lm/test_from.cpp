// lm train --from DIR only reads DIR; the new run needs another folder.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>

#include "tern/apps/lm/program.h"
#include "tern/core/base/error.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::lm::test_from {
namespace {

TEST_CASE("lm: the folder of --from stays unchanged, cannot be --out, and is named in the report") {
  for (const char* model : {"gpt", kBert}) {
    CAPTURE(model);
    test::TempDir dir;
    std::string text;
    for (int i = 0; i < 12; ++i) text += "The cat sat on the mat.\nIt saw the dog.\n\n";
    LmFlags o;
    o.config.text = {test::write_file(dir / "text", text)};
    o.config.hold_out = 0.2;
    o.config.vocab_size = model == std::string("gpt") ? 280 : 257;
    o.config.model.model = model;
    o.config.model.context = 16;
    o.config.model.layers = 1;
    o.config.model.dim = 16;
    o.config.epochs = 1;
    o.config.warmup = 0;
    o.train.out = dir / "base";
    REQUIRE(train_lm(o) == 0);
    const auto files = [&] {
      std::map<std::string, std::string> found;
      for (const auto& entry : std::filesystem::directory_iterator(dir / "base"))
        found[entry.path().filename().string()] = test::read_file(entry.path().string());
      return found;
    };
    const auto before = files();
    o.config.from = dir / "base";
    o.train.out = dir / "base/../base";
    CHECK_THROWS_WITH_AS(train_lm(o), doctest::Contains("this is the folder of --from"), Error);
    o.train.out = dir / "tuned";
    REQUIRE(train_lm(o) == 0);
    CHECK(files() == before);
    CHECK(test::contains(test::read_file(dir / "tuned/report.html"),
                         "starts from the weights of " + (dir / "base")));
  }
}

}  // namespace
}  // namespace tern::apps::lm::test_from
