// train_cifar with --patience, --keep, --schedule plateau, --steps and --eval-steps.
#include "tern/apps/train_cifar/drawn.h"
#include "tern/core/base/error.h"
#include "tern/tests/apps/epoch_end_checks.h"
#include "tern/tests/apps/length_checks.h"
#include "tern/tests/apps/train_cifar/chosen.h"

namespace tern::apps::train_cifar::test_epoch_end {
namespace {

using test::parse;

TEST_CASE("train_cifar: a run ends early by its held-out images, keeps epochs, and stays ended") {
  test::TempDir dir;
  datasets::write_cifar10(dir / "data", draw_cifar10(40, 10, 1));
  // clang-format off
  CifarFlags o = parse({"--data", dir / "data", "--model", "gmlp-small", "--epochs", "6",
                        "--batch", "8", "--schedule", "plateau", "--plateau-patience", "0",
                        "--plateau-factor", "0.25", "--patience", "3", "--keep", "2",
                        "--hold-out", "0.25", "--out", dir / "run"});
  // clang-format on
  CHECK(o.options.epoch_end == test::kEarlyEnd);
  o.options.lr = test::kNoRate;
  REQUIRE(train_classifier(o) == 0);
  test::check_ended_early({o.train.out}, "valid_top1");
  CHECK(load_config({o.train.out}, std::nullopt).epoch_end == test::kEarlyEnd);
  REQUIRE(train_classifier(parse({"--resume", o.train.out})) == 0);
  test::check_ended_early({o.train.out}, "valid_top1");
  test::check_other_patience({o.train.out}, 6, [&](int64_t patience) {
    return train_classifier(
        parse({"--resume", o.train.out, "--patience", std::to_string(patience)}));
  });
}

TEST_CASE("train_cifar: length and evaluations counted in steps") {
  test::TempDir dir;
  datasets::write_cifar10(dir / "data", draw_cifar10(40, 10, 1));
  const auto flags = [&](const std::string& steps, const std::string& out) {
    return parse({"--data", dir / "data", "--model", "gmlp-small", "--batch", "8", "--steps", steps,
                  "--eval-steps", "3", "--hold-out", "0.25", "--out", out});
  };
  REQUIRE(train_classifier(flags("7", dir / "run")) == 0);
  REQUIRE(train_classifier(flags("9", dir / "nine")) == 0);
  CHECK_THROWS_WITH_AS(train_classifier(parse({"--resume", dir / "run", "--epochs", "3"})),
                       doctest::Contains("is counted in steps, 7 of them; give --steps"), Error);
  CHECK_THROWS_WITH_AS(train_classifier(parse({"--resume", dir / "run", "--steps", "0"})),
                       doctest::Contains("--steps 0: the length of this run is counted in steps"),
                       Error);
  test::check_counted_in_steps({dir / "run"}, {dir / "nine"}, [&] {
    return train_classifier(parse({"--resume", dir / "run", "--steps", "9"}));
  });
  CHECK_THROWS_WITH_AS(parse({"--steps", "7", "--epochs", "2"}),
                       doctest::Contains("--epochs would change nothing: --steps says how long"),
                       Error);
}

TEST_CASE("train_cifar: a run in epochs cannot be resumed in steps") {
  test::TempDir dir;
  datasets::write_cifar10(dir / "data", draw_cifar10(40, 10, 1));
  REQUIRE(train_classifier(parse({"--data", dir / "data", "--model", "gmlp-small", "--epochs", "1",
                                  "--out", dir / "run"})) == 0);
  CHECK_THROWS_WITH_AS(train_classifier(parse({"--resume", dir / "run", "--steps", "9"})),
                       doctest::Contains("--steps 9: the length of this run is not counted in"),
                       Error);
}

TEST_CASE("train_cifar: patience and plateaus need held-out images, keeping epochs does not") {
  CHECK_THROWS_WITH_AS(parse({"--patience", "2"}),
                       doctest::Contains("--patience 2 needs held-out data"), Error);
  CHECK_THROWS_WITH_AS(parse({"--schedule", "plateau"}),
                       doctest::Contains("--schedule plateau needs held-out data"), Error);
  CHECK_THROWS_WITH_AS(parse({"--plateau-factor", "0.5"}),
                       doctest::Contains("--plateau-factor would change nothing"), Error);
  CHECK(parse({"--patience", "2", "--hold-out", "0.1"}).options.epoch_end.patience == 2);
  CHECK(parse({"--keep", "4"}).options.epoch_end.keep == 4);
}

}  // namespace
}  // namespace tern::apps::train_cifar::test_epoch_end
