#include "tern/apps/lm/commands.h"
#include "tern/apps/lm/folder.h"
#include "tern/core/base/error.h"
#include "tern/tests/apps/epoch_end_checks.h"

namespace tern::apps::lm {
namespace {

LmOptions short_run(const test::TempDir& dir, const std::string& model) {
  std::string text;
  for (int i = 0; i < 24; ++i)
    text += i % 2 == 0 ? "The cat sat on the mat.\nIt saw the dog.\nThe dog ran to the cat.\n\n"
                       : "A bird sang in a tree.\nIt flew over a roof.\nA fish heard the bird.\n\n";
  LmOptions o;
  o.train.text = {test::write_file(dir / "text", text)};
  o.train.hold_out = 0.2;
  o.train.vocab_size = model == kBert ? 120 : 280;
  o.train.model.model = model;
  o.train.model.context = 20;
  o.train.model.layers = 1;
  o.train.model.dim = 16;
  o.train.epochs = 6;
  o.train.warmup = 0;
  o.train.lr = test::kNoRate;
  o.train.schedule = "plateau";
  o.train.epoch_end = test::kEarlyEnd;
  o.out = dir / "run";
  return o;
}

TEST_CASE("lm: a run ends early, keeps epochs, and stays ended") {
  for (const char* model : {"gpt", kBert}) {
    CAPTURE(model);
    test::TempDir dir;
    const LmOptions o = short_run(dir, model);
    REQUIRE(start_training(o) == 0);
    test::check_ended_early({o.out}, "valid_loss");
    CHECK(load_config({o.out}).epoch_end == test::kEarlyEnd);
    LmOptions more;
    more.resume = o.out;
    REQUIRE(resume_training(more) == 0);
    test::check_ended_early({o.out}, "valid_loss");
  }
}

TEST_CASE("lm: patience and plateaus need held-out text") {
  for (const char* model : {"gpt", kBert}) {
    test::TempDir dir;
    LmOptions o = short_run(dir, model);
    o.train.hold_out = 0;
    CHECK_THROWS_WITH_AS(start_training(o), doctest::Contains("--patience 3 needs held-out data"),
                         Error);
    o.train.epoch_end.patience = 0;
    CHECK_THROWS_WITH_AS(start_training(o), doctest::Contains("--schedule plateau needs held-out"),
                         Error);
    CHECK_FALSE(std::filesystem::exists(o.out));
  }
}

}  // namespace
}  // namespace tern::apps::lm
