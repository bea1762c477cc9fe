// What train_cifar chooses by the data: model, side, batch, epochs and warm-up.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>

#include "tern/apps/train_cifar/drawn.h"
#include "tern/tests/apps/train_cifar/chosen.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::train_cifar::test_choice {
namespace {

using test::chosen, test::parse;

namespace fs = std::filesystem;

// Writes pictures of one colour per class, of this height and slightly wider.
void write_folders(const std::string& dir, int classes, int each, int64_t height) {
  for (int k = 0; k < classes; ++k) {
    const std::string folder = dir + fmt::format("/class {:03}", k);
    fs::create_directories(folder);
    datasets::Picture p{height, height + 9, {}};
    p.rgb.resize(static_cast<size_t>(3 * p.height * p.width));
    for (int i = 0; i < each; ++i) {
      for (size_t j = 0; j < p.rgb.size(); ++j)
        p.rgb[j] = static_cast<uint8_t>(90 * (k >> j % 3 & 1) + (7 * i + k + j) % 60);
      datasets::save_png(fmt::format("{}/{}.png", folder, i), p);
    }
  }
}

}  // namespace

TEST_CASE("train_cifar choice: model, side, batch, epochs and warm-up depend on the pictures") {
  const test::TempDir dir;
  write_folders(dir / "few", 2, 10, 150);
  const TrainOptions few = chosen({"--data", dir / "few"});
  CHECK(few.model == "airbench94");
  CHECK(few.form.side == 48);
  CHECK(few.form.classes == 2);
  CHECK(few.class_names == std::vector<std::string>{"class 000", "class 001"});
  CHECK(few.batch == 8);
  CHECK(few.epochs == 100);
  CHECK(few.warmup == 10);  // of 200 steps
  CHECK(few.optimizer == "sgd");
  CHECK(few.lr == 1.5 * 8 / 1024);  // in proportion to the batch
  CHECK(few.augment == "translate");

  // The same model by name is no other recipe.
  CHECK(flags_between(few, chosen({"--data", dir / "few", "--model", "airbench94"})) == "");
  // A gMLP by name has a recipe for such data too.
  const TrainOptions gmlp = chosen({"--data", dir / "few", "--model", "gmlp-stem"});
  CHECK(gmlp.augment == "standard");
  CHECK_FALSE(gmlp.decay_all);
  CHECK(test::contains(flags_between({}, gmlp), " --no-decay-all "));
  CHECK(chosen({"--data", dir / "few", "--model", "gmlp-stem", "--decay-all"}).decay_all);

  write_folders(dir / "many", 200, 2, 22);
  const TrainOptions many = chosen({"--data", dir / "many"});
  CHECK(many.form.side == 20);
  CHECK(many.form.classes == 200);
  CHECK(many.batch == 16);
  CHECK(many.epochs == 93);  // 30,000 / 320

  const TrainOptions patches = chosen({"--data", dir / "many", "--model", "gmlp-4m"});
  CHECK(patches.form.side == 24);  // a multiple of the patch size, 8
  CHECK(patches.schedule == "constant");
  CHECK(patches.warmup == 0);
  CHECK(chosen({"--data", dir / "few", "--model", "vit_tiny_patch16_224"}).form.side == 224);
}

TEST_CASE("train_cifar choice: a given flag counts, also for choices that depend on it") {
  const test::TempDir dir;
  write_folders(dir / "few", 2, 10, 150);
  const TrainOptions o =
      chosen({"--data", dir / "few", "--side", "16", "--epochs", "3", "--batch", "4", "--augment",
              "none", "--lr", "0.5", "--model", "gmlp-small", "--warmup", "0"});
  CHECK(o.model == "gmlp-small");
  CHECK(o.form.side == 16);
  CHECK(o.epochs == 3);
  CHECK(o.batch == 4);
  CHECK(o.augment == "none");
  CHECK(o.lr == 0.5);
  CHECK(o.warmup == 0);
  const TrainOptions limited = chosen({"--data", dir / "few", "--limit", "5", "--hold-out", "0.2"});
  CHECK(limited.epochs == 100);
  CHECK(limited.warmup == 5);  // one step per epoch
  const TrainOptions plain = chosen({"--data", dir / "few", "--schedule", "constant"});
  CHECK(plain.warmup == 0);
  CHECK(plain.model == "airbench94");
  // Flags are judged by the recipe that is chosen: it has sgd.
  CHECK(chosen({"--data", dir / "few", "--momentum", "0.5"}).details.momentum == 0.5);
  CHECK_THROWS_WITH_AS(parse({"--data", dir / "few", "--beta2", "0.9"}),
                       doctest::Contains("--beta2 would change nothing: sgd has none"), Error);
  CHECK_THROWS_WITH_AS(parse({"--data", dir / "few", "--optimizer", "adamw"}),
                       doctest::Contains("the recipe of airbench94 is for sgd"), Error);
  CHECK(parse({"--data", dir / "few", "--optimizer", "adamw", "--lr", "1e-3"}).options.lr == 1e-3);
}

TEST_CASE("train_cifar choice: CIFAR-10 and generated pictures keep the recipe of their model") {
  const test::TempDir dir;
  datasets::write_cifar10(dir / "ten", draw_cifar10(20, 10, 1));
  const CifarFlags flags = parse({"--data", dir / "ten"});
  CHECK(flags_between(flags.options, chosen({"--data", dir / "ten"})) == "");
  CHECK(flags_between(flags.options, default_options("gmlp-4m")) == " --data ");
  CHECK(flags_between(parse({}).options, chosen({})) == "");
  CHECK(chosen({"--data", dir / "ten", "--model", "gmlp_ti16_224", "--limit", "2"}).form.side ==
        224);
}

TEST_CASE("train_cifar choice: a flag that is turned off has a name that turns it off") {
  TrainOptions on = default_options("airbench94"), off = on;
  REQUIRE(on.alternate_flips);
  off.alternate_flips = false;
  CHECK(flags_between(on, off) == " --alternate-flips=false");
  CHECK(flags_between(off, on) == " --alternate-flips");
}

TEST_CASE("train_cifar choice: it is printed and saved, and a resumed run keeps it") {
  const test::TempDir dir;
  write_folders(dir / "all", 3, 12, 20);
  const CifarFlags f = parse({"--data", dir / "all", "--epochs", "2", "--schedule", "constant",
                              "--model", "gmlp-small", "--out", dir / "run"});
  REQUIRE(train_classifier(f) == 0);
  const training::RunFolder run{f.train.out};
  CHECK(test::contains(test::read_file(run.file("report.html")),
                       "by the data: --batch 8 --side 20</td>"));
  CHECK(test::contains(test::read_file(run.file("report.html")),
                       "the rest is the recipe of gmlp-small for CIFAR-10"));
  const TrainOptions before = load_config(run, std::nullopt);
  REQUIRE(train_classifier(parse({"--resume", run.path, "--epochs", "3"})) == 0);
  CHECK(flags_between(before, load_config(run, std::nullopt)) == " --epochs 3");
  CHECK(test::contains(test::read_file(run.file("report.html")), "<td>class 002</td>"));
}

TEST_CASE("train_cifar choice: --help says whose defaults it shows, and those of other models") {
  std::string words[] = {"train_cifar", "--model", "airbench94"};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data()};
  CifarFlags f, usual;
  const Program shown = cifar_program(f, 3, argv), first = cifar_program(usual, 1, argv);
  CHECK(test::contains(shown.about, "The defaults below are airbench94's."));
  CHECK(test::contains(shown.more, "gmlp-4m"));
  CHECK_FALSE(test::contains(shown.more, "airbench94"));
  CHECK(test::contains(first.about, "The defaults below are gmlp-4m's."));
  CHECK(test::contains(first.more, "airbench94: --batch 1024"));
}

TEST_CASE("train_cifar choice: generated pictures are named as such") {
  const test::TempDir dir;
  CifarFlags f = parse({"--limit", "20", "--epochs", "1", "--out", dir / "run"});
  REQUIRE(train_classifier(f) == 0);
  const std::string page = test::read_file(training::RunFolder{f.train.out}.file("report.html"));
  CHECK(test::contains(page, "gmlp-small on generated shapes"));
  CHECK(test::contains(page, "data (generated, not CIFAR-10): 20 training"));
}

}  // namespace tern::apps::train_cifar::test_choice
