// translate train with --patience, --keep, --schedule plateau, --steps and --eval-steps.
#include "tern/apps/translate/program.h"
#include "tern/core/base/error.h"
#include "tern/tests/apps/epoch_end_checks.h"
#include "tern/tests/apps/length_checks.h"

namespace tern::apps::translate::test_epoch_end {
namespace {

TranslateFlags short_run(const std::string& out, const std::string& best) {
  TranslateFlags o;
  o.config.first = 40;
  o.config.hold_out = 6;
  o.config.model = {.layers = 1, .dim = 16, .heads = 2, .ffn = 20};
  o.config.epochs = 6;
  o.config.lr = test::kNoRate;
  o.config.schedule = "plateau";
  o.config.best = best;
  o.config.epoch_end = test::kEarlyEnd;
  o.train.out = out;
  return o;
}

TEST_CASE("translate: a run ends early by loss or BLEU, keeps epochs, and stays ended") {
  for (const char* best : {"loss", "bleu"}) {
    test::TempDir dir;
    const std::string folder = dir / "run", metric = std::string("valid_") + best;
    REQUIRE(train_translation(short_run(folder, best)) == 0);
    test::check_ended_early({folder}, metric);
    CHECK(load_config({folder}).epoch_end == test::kEarlyEnd);
    TranslateFlags more;
    more.train.resume = folder;
    more.train.epochs = 8;  // plateau does not depend on the length
    REQUIRE(train_translation(more) == 0);
    test::check_ended_early({folder}, metric);
    test::check_other_patience({folder}, 8, [&](int64_t patience) {
      TranslateFlags other;
      other.train.resume = folder;
      other.train.patience = patience;
      return train_translation(other);
    });
    CHECK(load_config({folder}).epoch_end.patience == 0);
  }
}

TEST_CASE("translate: length and validations counted in steps") {
  test::TempDir dir;
  TranslateFlags o = short_run(dir / "run", "loss");
  o.config.batch = 16;
  o.config.lr = 1e-3;
  o.config.schedule = "constant";
  o.config.epoch_end = {};
  o.config.length = test::kSevenSteps;
  REQUIRE(train_translation(o) == 0);
  TranslateFlags nine = o;
  nine.config.length.steps = 9;
  nine.train.out = dir / "nine";
  REQUIRE(train_translation(nine) == 0);
  TranslateFlags more;
  more.train.resume = o.train.out;
  more.train.steps = 9;
  test::check_counted_in_steps({o.train.out}, {nine.train.out},
                               [&] { return train_translation(more); });
}

TEST_CASE("translate: patience and plateaus need held-out pairs") {
  test::TempDir dir;
  TranslateFlags o = short_run(dir / "run", "loss");
  o.config.hold_out = 0;
  CHECK_THROWS_WITH_AS(train_translation(o),
                       doctest::Contains("--patience 3 needs held-out data to judge an epoch by"),
                       Error);
  o.config.epoch_end.patience = 0;
  CHECK_THROWS_WITH_AS(train_translation(o), doctest::Contains("--schedule plateau needs held-out"),
                       Error);
  CHECK_FALSE(std::filesystem::exists(o.train.out));
  o.config.schedule = "constant";
  o.config.epochs = 2;
  CHECK(train_translation(o) == 0);
  CHECK(std::filesystem::exists(training::RunFolder{o.train.out}.checkpoint(2)));
  TranslateFlags more;
  more.train.resume = o.train.out;
  more.train.patience = 2;
  CHECK_THROWS_WITH_AS(train_translation(more), doctest::Contains("--patience 2 needs held-out"),
                       Error);
}

}  // namespace
}  // namespace tern::apps::translate::test_epoch_end
