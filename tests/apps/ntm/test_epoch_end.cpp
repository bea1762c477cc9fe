// ntm train with --patience, --keep, --schedule plateau, --steps and --eval-steps.
#include "tern/apps/ntm/program.h"
#include "tern/tests/apps/epoch_end_checks.h"
#include "tern/tests/apps/length_checks.h"

namespace tern::apps::ntm::test_epoch_end {
namespace {

TEST_CASE("ntm: a run ends early, keeps epochs, and stays ended when resumed") {
  test::TempDir dir;
  NtmFlags o;
  o.config = default_config("copy", false, "lstm");
  o.config.hidden = 6;
  o.config.slots = 9;
  o.config.width = 4;
  o.config.sequences = 36;
  o.config.every = 6;
  o.config.batch = 3;
  o.config.lr = test::kNoRate;
  o.config.schedule = "plateau";
  o.config.epoch_end = test::kEarlyEnd;
  o.train.out = dir / "run";
  REQUIRE(train_ntm(o) == 0);
  test::check_ended_early({o.train.out}, "bits_per_sequence");
  CHECK(load_config({o.train.out}).epoch_end == test::kEarlyEnd);
  NtmFlags more;
  more.train.resume = o.train.out;
  REQUIRE(train_ntm(more) == 0);
  test::check_ended_early({o.train.out}, "bits_per_sequence");
  test::check_other_patience({o.train.out}, 6, [&](int64_t patience) {
    more.train.patience = patience;
    return train_ntm(more);
  });
}

TEST_CASE("ntm: length and validations counted in steps") {
  test::TempDir dir;
  NtmFlags o;
  o.config = default_config("copy", false, "lstm");
  o.config.hidden = 6, o.config.slots = 9, o.config.width = 4;
  o.config.sequences = 9, o.config.every = 10;  // --steps and --eval-steps replace them
  o.config.batch = 3;
  o.config.schedule = "constant";
  o.config.length = test::kSevenSteps;
  o.train.out = dir / "run";
  REQUIRE(train_ntm(o) == 0);
  NtmFlags nine = o;
  nine.config.length.steps = 9;
  nine.train.out = dir / "nine";
  REQUIRE(train_ntm(nine) == 0);
  NtmFlags more;
  more.train.resume = o.train.out;
  more.train.steps = 9;
  test::check_counted_in_steps({o.train.out}, {nine.train.out}, [&] { return train_ntm(more); });
  // An epoch of ten sequences has four batches, and the last has one sequence.
  CHECK(training::read_log(training::RunFolder{nine.train.out}.log()).epochs[2]["sequences"] == 23);
}

TEST_CASE("ntm: steps of several batches: their number, and the sequences after each") {
  NtmConfig c = default_config("copy", false, "lstm");
  c.sequences = 25, c.every = 10, c.batch = 2, c.accumulate = 2;
  CHECK(c.steps() == 3 + 3 + 2);
  CHECK(c.sequences_after(2) == 8);
  CHECK(c.sequences_after(3) == 10);
  CHECK(c.sequences_after(8) == 25);
}

}  // namespace
}  // namespace tern::apps::ntm::test_epoch_end
