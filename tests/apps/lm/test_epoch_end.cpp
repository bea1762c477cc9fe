// lm train with --patience, --keep, --schedule plateau, --steps and --eval-steps, for gpt and bert.
#include "tern/apps/lm/folder.h"
#include "tern/apps/lm/program.h"
#include "tern/core/base/error.h"
#include "tern/tests/apps/epoch_end_checks.h"
#include "tern/tests/apps/length_checks.h"

namespace tern::apps::lm::test_epoch_end {
namespace {

LmFlags short_run(const test::TempDir& dir, const std::string& model) {
  std::string text;
  for (int i = 0; i < 24; ++i)
    text += i % 2 == 0 ? "The cat sat on the mat.\nIt saw the dog.\nThe dog ran to the cat.\n\n"
                       : "A bird sang in a tree.\nIt flew over a roof.\nA fish heard the bird.\n\n";
  LmFlags o;
  o.config.text = {test::write_file(dir / "text", text)};
  o.config.hold_out = 0.2;
  o.config.vocab_size = model == kBert ? 257 : 280;
  o.config.model.model = model;
  o.config.model.context = 20;
  o.config.model.layers = 1;
  o.config.model.dim = 16;
  o.config.epochs = 6;
  o.config.warmup = 0;
  o.config.lr = test::kNoRate;
  o.config.schedule = "plateau";
  o.config.epoch_end = test::kEarlyEnd;
  o.train.out = dir / "run";
  return o;
}

TEST_CASE("lm: a run ends early, keeps epochs, and stays ended when resumed") {
  for (const char* model : {"gpt", kBert}) {
    CAPTURE(model);
    test::TempDir dir;
    const LmFlags o = short_run(dir, model);
    REQUIRE(train_lm(o) == 0);
    test::check_ended_early({o.train.out}, "valid_loss");
    CHECK(load_config({o.train.out}).epoch_end == test::kEarlyEnd);
    LmFlags more;
    more.train.resume = o.train.out;
    REQUIRE(train_lm(more) == 0);
    test::check_ended_early({o.train.out}, "valid_loss");
    test::check_other_patience({o.train.out}, 6, [&](int64_t patience) {
      more.train.patience = patience;
      return train_lm(more);
    });
  }
}

TEST_CASE("lm: patience and plateaus need held-out text") {
  for (const char* model : {"gpt", kBert}) {
    test::TempDir dir;
    LmFlags o = short_run(dir, model);
    o.config.hold_out = 0;
    CHECK_THROWS_WITH_AS(train_lm(o), doctest::Contains("--patience 3 needs held-out data"), Error);
    o.config.epoch_end.patience = 0;
    CHECK_THROWS_WITH_AS(train_lm(o), doctest::Contains("--schedule plateau needs held-out"),
                         Error);
    CHECK_FALSE(std::filesystem::exists(o.train.out));
  }
}

TEST_CASE("lm: length and evaluations counted in steps") {
  for (const char* model : {"gpt", kBert}) {
    CAPTURE(model);
    test::TempDir dir;
    LmFlags o = short_run(dir, model);
    o.config.epochs = 1;  // --steps replaces it
    o.config.batch = 8;
    o.config.lr = 1e-3;
    o.config.schedule = "constant";
    o.config.epoch_end = {};
    o.config.length = test::kSevenSteps;
    REQUIRE(train_lm(o) == 0);
    LmFlags nine = o;
    nine.config.length.steps = 9;
    nine.train.out = dir / "nine";
    REQUIRE(train_lm(nine) == 0);
    LmFlags more;
    more.train.resume = o.train.out;
    more.train.epochs = 2;
    CHECK_THROWS_WITH_AS(train_lm(more), doctest::Contains("is counted in steps, 7 of them"),
                         Error);
    more.train.epochs = 0;
    more.train.steps = 9;
    test::check_counted_in_steps({o.train.out}, {nine.train.out}, [&] { return train_lm(more); });
  }
}

}  // namespace
}  // namespace tern::apps::lm::test_epoch_end
