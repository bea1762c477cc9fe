#include "tern/apps/ntm/model.h"
#include "tern/apps/ntm/program.h"
#include "tern/tests/apps/epoch_end_checks.h"

namespace tern::apps::ntm::test_epoch_end {
namespace {

TEST_CASE("ntm: a run ends early, keeps epochs, and stays ended") {
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

}  // namespace
}  // namespace tern::apps::ntm::test_epoch_end
