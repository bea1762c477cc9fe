// The user's own pictures: flips, limits, dry runs, tests on folders, predictions as text, CSV and
// JSON, damaged files.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "tern/apps/train_cifar/drawn.h"
#include "tern/tests/apps/train_cifar/chosen.h"
#include "tern/tests/support/data_files.h"

namespace tern::apps::train_cifar::test_own_pictures {
namespace {

using test::chosen, test::parse;

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

// Writes n pictures per class, dark on the left and light on the right; each is slightly lighter
// than the one before.
void write_classes(const std::string& dir, const Words& names, int n) {
  int level = 0;
  for (const std::string& name : names) {
    fs::create_directories(dir + "/" + name);
    level += 20;
    for (int i = 0; i < n; ++i) {
      datasets::Picture p{24, 24, std::vector<uint8_t>(3 * 24 * 24)};
      for (size_t j = 0; j < p.rgb.size(); ++j)
        p.rgb[j] = static_cast<uint8_t>((j / 3 % 24 < 12 ? 20 : 150) + level + i);
      datasets::save_png(fmt::format("{}/{}/{}.png", dir, name, i), p);
    }
  }
}

// A short run on a folder of cats and dogs.
std::string train_on(const std::string& data, const std::string& out, Words more = {}) {
  Words words = {"--data", data,    "--model", "gmlp-small", "--side", "16",         "--batch",
                 "8",      "--out", out,       "--epochs",   "1",      "--schedule", "constant"};
  words.insert(words.end(), more.begin(), more.end());
  REQUIRE(train_classifier(parse(words)) == 0);
  return out;
}

// The output of --predict with these flags. Checks the exit code.
std::string predicted(const Words& words, int code) {
  std::ostringstream text;
  CHECK(classify_pictures(parse(words), text) == code);
  return text.str();
}

Words lines_of(const std::string& text) {
  Words lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("own pictures: they are mirrored only on request") {
  const test::TempDir dir;
  write_classes(dir / "pets", {"cat", "dog"}, 10);
  const TrainOptions plain = chosen({"--data", dir / "pets"});
  CHECK(plain.augment == "translate");
  CHECK_FALSE(plain.flip);
  CHECK(test::contains(flags_between({}, plain), " --no-flip"));
  TrainOptions shown = plain;
  CHECK(test::contains(recipe_text(settings_of(shown)), "augmentation translate without flips"));
  CHECK(chosen({"--data", dir / "pets", "--flip"}).flip);
  CHECK(chosen({"--data", dir / "pets", "--augment", "standard"}).flip);
  CHECK_FALSE(chosen({"--data", dir / "pets", "--augment", "strong", "--no-flip"}).flip);
  CHECK_FALSE(chosen({"--data", dir / "pets", "--model", "vit-lite-7-4"}).flip);
  // Without flips neither training nor the last test mirrors.
  const TrainOptions air = chosen({"--data", dir / "pets", "--model", "airbench94"});
  CHECK_FALSE((air.flip || air.alternate_flips));
  CHECK(air.tta == "none");
  CHECK(chosen({"--data", dir / "pets", "--model", "airbench94", "--tta", "mirror"}).tta ==
        "mirror");
  const TrainOptions still = chosen({"--data", dir / "pets", "--augment", "none"});
  CHECK((still.model == "airbench94" && still.tta == "none" && !still.alternate_flips));
  const TrainOptions both = chosen({"--data", dir / "pets", "--model", "airbench94", "--flip"});
  CHECK((both.flip && both.alternate_flips));
  CHECK(both.tta == "translate");
  CHECK_THROWS_WITH_AS(chosen({"--data", dir / "pets", "--augment", "none", "--flip"}),
                       doctest::Contains("the augmentation is none"), Error);
  CHECK(chosen({"--limit", "20", "--model", "vit-lite-7-4"}).flip);  // generated pictures
  CHECK(TrainOptions().flip);                                        // and older runs

  // Without flips the left side is darker than the right in all batches.
  for (const bool flip : {false, true}) {
    TrainOptions o = plain;
    o.flip = flip;
    const LabelledPictures data = datasets::load_labelled_pictures(dir / "pets", o.form.side);
    CifarTraining training(o, data, make_model(o), {.terminal = false});
    int64_t mirrored = 0;
    for (datasets::Batch& b : training.loader) {
      const Tensor columns = mean(b.images, {1, 2});
      for (int64_t i = 0; i < columns.size(0); ++i)
        mirrored += columns[i][5].item() > columns[i][columns.size(1) - 6].item();
    }
    CHECK((mirrored > 0) == flip);
  }
}

TEST_CASE("own pictures: a dry run and generated pictures respect --limit") {
  const auto loaded = [](Words words) {
    auto program = std::make_unique<CifarProgram>(parse(std::move(words)));
    program->load(nullptr);
    return program;
  };
  const auto few = loaded({"--limit", "64"});
  CHECK(few->data.train.size() == 65);  // each file holds a multiple of 5
  CHECK(few->data.test.size() == 65);
  CHECK(few->describe()[1].second == "64 training and 64 test images of 10 classes");
  const auto all = loaded({});
  CHECK(all->data.train.size() == 10'000);
  const std::string bytes(few->data.train.bytes.get(), few->data.train.bytes.get() + 64 * 3072);
  CHECK(std::string(all->data.train.bytes.get(), all->data.train.bytes.get() + 64 * 3072) == bytes);
  const auto dry = loaded({"--dry-run"});
  CHECK(dry->data.train.size() == 10'000);
  CHECK(std::string(dry->data.train.bytes.get(), dry->data.train.bytes.get() + 64 * 3072) ==
        std::string(64 * 3072, '\0'));  // a dry run draws nothing
  CHECK(dry->data.class_names == all->data.class_names);

  const test::TempDir dir;
  write_classes(dir / "pets", {"cat", "dog"}, 20);
  const auto own = loaded({"--data", dir / "pets", "--limit", "10", "--hold-out", "0.2"});
  CHECK(own->describe()[1].second ==
        "8 training, 2 held-out and 8 test images (one in 5, chosen by the seed) of 2 classes");
}

TEST_CASE(
    "own pictures: all of another folder is tested, but only the test share of the run's own") {
  const test::TempDir dir;
  write_classes(dir / "pets", {"cat", "dog"}, 10);
  write_classes(dir / "new", {"dog"}, 7);
  const std::string run = train_on(dir / "pets", dir / "run");
  const TrainOptions o = load_config({run}, std::nullopt);
  CHECK(pictures_to_test(o, dir / "pets", {}).test.size() == 4);
  CHECK(pictures_to_test(o, (dir / "pets") + "/../pets", {}).note ==
        " (one in 5, chosen by the seed)");
  CHECK(evaluate_weights(parse({"--eval", run, "--data", dir / "pets"})) == 0);
  write_classes(dir / "pets", {"cat", "dog"}, 11);  // then others would be chosen
  CHECK_THROWS_WITH_AS(evaluate_weights(parse({"--eval", run, "--data", dir / "pets"})),
                       doctest::Contains("have changed since the training"), Error);
  const LabelledPictures all = pictures_to_test(o, dir / "new", {});
  CHECK(all.test.size() == 7);
  CHECK(all.test.labels == std::vector<int64_t>(7, 1));
  CHECK(all.note == " (all of " + (dir / "new") + ")");
  CHECK(evaluate_weights(parse({"--eval", run, "--data", dir / "new"})) == 0);
  write_classes(dir / "new", {"emu"}, 1);
  CHECK_THROWS_WITH_AS(evaluate_weights(parse({"--eval", run, "--data", dir / "new"})),
                       doctest::Contains("its folder emu is not one of the classes"), IoError);
  write_classes(dir / "apart/test", {"cat", "dog"}, 2);
  CHECK(pictures_to_test(o, dir / "apart", {}).test.size() == 4);
}

TEST_CASE("own pictures: files and folders are classified as text, CSV and lines of JSON") {
  const test::TempDir dir;
  write_classes(dir / "pets", {"cat, small", "dog"}, 40);
  const std::string run = train_on(dir / "pets", dir / "run");
  write_classes(dir / "new", {"a", "b"}, 40);  // more than one batch
  test::write_file(dir / "new/a/notes.txt", "x");
  const auto out = [&](const Words& more) {
    Words words = {"--weights", run, "--predict", dir / "new"};
    words.insert(words.end(), more.begin(), more.end());
    return lines_of(predicted(words, 0));
  };
  const Words text = out({}), csv = out({"--format", "csv"}), json = out({"--format", "jsonl"});
  REQUIRE(text.size() == 80);
  REQUIRE(csv.size() == 81);
  REQUIRE(json.size() == 80);
  CHECK(csv[0] == "file,class_1,probability_1,class_2,probability_2");
  std::set<std::string> files;
  for (size_t i = 0; i < 80; ++i) {
    const auto j = nlohmann::json::parse(json[i]);
    const std::string file = j["file"], first = j["classes"][0]["class"];
    const double p = j["classes"][0]["probability"], q = j["classes"][1]["probability"];
    files.insert(file);
    CHECK(p + q == doctest::Approx(1).epsilon(1e-5));
    CHECK(text[i].starts_with(fmt::format("{}: {} {:.1f} %, ", file, first, 100 * p)));
    const std::string name = first == "dog" ? "dog" : "\"cat, small\"";
    CHECK(csv[i + 1].starts_with(fmt::format("{},{},{:.6f},", file, name, p)));
    // A picture has the same classes when it is classified alone.
    if (i % 37 == 0)
      CHECK(text[i] == lines_of(predicted({"--weights", run, "--predict", file}, 0))[0]);
  }
  CHECK(files.size() == 80);
  CHECK(*files.begin() == dir / "new/a/0.png");
  CHECK(out({"--top", "1", "--format", "csv"})[0] == "file,class_1,probability_1");
  CHECK(out({"--top", "1"})[0].find(", dog") == std::string::npos);
  Words remarks;
  CHECK(
      pictures_to_guess({dir / "new/b/1.png", dir / "new", dir / "new/b/1.png"}, remarks).size() ==
      80);
  CHECK(remarks == Words{(dir / "new") + ": 1 file was not used: .txt 1"});
  fs::create_directories(dir / "none");
  CHECK_THROWS_WITH_AS(pictures_to_guess({dir / "none"}, remarks),
                       doctest::Contains("holds no .png, .jpg or .jpeg file"), IoError);
  CHECK(guess_line({"a \"b\".png", "", {{"x", 0.5F}}}, "csv") ==
        "\"a \"\"b\"\".png\",x,0.500000\n");
  CHECK(nlohmann::json::parse(guess_line({"\xff", "", {}}, "jsonl"))["file"] == "\xef\xbf\xbd");

  test::write_file(dir / "new/a/3.png", "no picture");
  const Words folder = {"--weights", run, "--predict", dir / "new"};
  CHECK(lines_of(predicted(folder, 2)).size() == 79);
  Words skipped = folder;
  skipped.push_back("--skip-damaged");
  CHECK(lines_of(predicted(skipped, 0)).size() == 79);
  skipped[3] = dir / "new/a/3.png";  // nothing left to classify
  CHECK(predicted(skipped, 2) == "");
}

TEST_CASE(
    "own pictures: a run that skipped damaged pictures resumes only with the same other pictures") {
  const test::TempDir dir;
  write_classes(dir / "pets", {"cat", "dog"}, 10);
  const std::string whole = test::read_file(dir / "pets/cat/3.png");
  test::write_file(dir / "pets/cat/3.png", whole.substr(0, 50));
  CHECK_THROWS_WITH_AS(train_classifier(parse({"--data", dir / "pets", "--out", dir / "no"})),
                       doctest::Contains("cat/3.png: damaged PNG"), IoError);
  const std::string run = train_on(dir / "pets", dir / "run", {"--skip-damaged"});
  CHECK(test::contains(test::read_file(run + "/report.html"),
                       "1 damaged picture was left out: " + (dir / "pets/cat/3.png")));
  CHECK(load_config({run}, std::nullopt).skip_damaged);
  CHECK(train_classifier(parse({"--resume", run, "--epochs", "2"})) == 0);
  test::write_file(dir / "pets/cat/3.png", whole);
  CHECK_THROWS_WITH_AS(train_classifier(parse({"--resume", run, "--epochs", "3"})),
                       doctest::Contains("the run was started with other data"), IoError);
  CHECK_THROWS_WITH_AS(parse({"--skip-damaged"}), doctest::Contains("would change nothing"), Error);
  datasets::write_cifar10(dir / "cifar", draw_cifar10(20, 10, 1));
  for (const char* flag : {"--skip-damaged", "--no-exif-rotation"})
    CHECK_THROWS_WITH_AS(chosen({"--data", dir / "cifar", flag}),
                         doctest::Contains("these are not picture files"), Error);
}

TEST_CASE("own pictures: runs of older versions ignore EXIF rotation, and flip") {
  TrainOptions o;
  o.data = "pets";
  o.flip = false;
  nlohmann::json old = nlohmann::json::parse(to_json(o));
  CHECK(config_from_json<TrainOptions>(old.dump()).exif_rotation);
  CHECK_FALSE(config_from_json<TrainOptions>(old.dump()).flip);
  for (const char* later : {"exif_rotation", "flip", "skip_damaged"}) CHECK(old.erase(later) == 1);
  const TrainOptions before = config_from_json<TrainOptions>(old.dump());
  CHECK_FALSE(before.exif_rotation);
  CHECK(before.flip);
  CHECK_FALSE(before.skip_damaged);
  CHECK_FALSE(folder_reading(before).upright);
  CHECK_THROWS_AS(parse({"--no-exif-rotation"}), Error);  // generated pictures have no rotation
}

}  // namespace tern::apps::train_cifar::test_own_pictures
