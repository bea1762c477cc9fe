#include "tern/apps/translate/commands.h"
#include "tern/apps/translate/translator.h"
#include "tern/core/base/error.h"
#include "tern/tests/apps/epoch_end_checks.h"

namespace tern::apps::translate {
namespace {

TranslateOptions short_run(const std::string& out, const std::string& best) {
  TranslateOptions o;
  o.train.first = 40;
  o.train.hold_out = 6;
  o.train.model = {.layers = 1, .dim = 16, .heads = 2, .ffn = 20};
  o.train.epochs = 6;
  o.train.lr = test::kNoRate;
  o.train.schedule = "plateau";
  o.train.best = best;
  o.train.epoch_end = test::kEarlyEnd;
  o.out = out;
  return o;
}

TEST_CASE("translate: a run ends early by loss or BLEU, keeps epochs, and stays ended") {
  for (const char* best : {"loss", "bleu"}) {
    test::TempDir dir;
    const std::string folder = dir / "run", metric = std::string("valid_") + best;
    REQUIRE(start_training(short_run(folder, best)) == 0);
    test::check_ended_early({folder}, metric);
    CHECK(load_config({folder}).epoch_end == test::kEarlyEnd);
    TranslateOptions more;
    more.resume = folder;
    more.train.epochs = 8;  // the schedule does not know its length
    more.epochs_given = true;
    REQUIRE(resume_training(more) == 0);
    test::check_ended_early({folder}, metric);
  }
}

TEST_CASE("translate: patience and plateaus need held-out pairs") {
  test::TempDir dir;
  TranslateOptions o = short_run(dir / "run", "loss");
  o.train.hold_out = 0;
  CHECK_THROWS_WITH_AS(start_training(o),
                       doctest::Contains("--patience 3 needs held-out data to judge an epoch by"),
                       Error);
  o.train.epoch_end.patience = 0;
  CHECK_THROWS_WITH_AS(start_training(o), doctest::Contains("--schedule plateau needs held-out"),
                       Error);
  CHECK_FALSE(std::filesystem::exists(o.out));
  o.train.schedule = "constant";
  o.train.epochs = 2;
  CHECK(start_training(o) == 0);
  CHECK(std::filesystem::exists(train::RunFolder{o.out}.checkpoint(2)));
}

}  // namespace
}  // namespace tern::apps::translate
