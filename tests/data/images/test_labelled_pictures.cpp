// Labelled pictures from folders: kind, classes, side and batches. tests/apps/train_cifar has runs
// on every kind.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <filesystem>
#include <set>

#include "tern/core/base/error.h"
#include "tern/data/images/labelled_pictures.h"
#include "tern/tests/support/data_files.h"

namespace tern::datasets::test_labelled_pictures {
namespace {

// n pictures of one colour for each class, a bit brighter from file to file.
void write_classes(const std::string& dir, int n, int64_t height) {
  for (const auto& [name, level] : {std::pair("cat", 20), {"dog", 160}}) {
    std::filesystem::create_directories(fmt::format("{}/{}", dir, name));
    for (int i = 0; i < n; ++i) {
      const auto size = static_cast<size_t>(3 * height * (height + 7));
      save_png(fmt::format("{}/{}/{}.png", dir, name, i),
               {height, height + 7, std::vector<uint8_t>(size, static_cast<uint8_t>(level + i))});
    }
  }
}

}  // namespace

TEST_CASE("labelled pictures: folders of classes become bytes and batches") {
  const test::TempDir dir;
  write_classes(dir / "pets", 10, 50);
  CHECK(labelled_kind(dir / "pets") == "pictures");
  CHECK(usual_side(dir / "pets", "pictures") == 48);
  const LabelledPictures pets = load_labelled_pictures(dir / "pets", 12);
  CHECK(pets.class_names == std::vector<std::string>{"cat", "dog"});
  CHECK(pets.form.classes == 2);
  CHECK(pets.train.size() == 16);
  CHECK(pets.test.size() == 4);
  std::set<int> levels;
  const Dataset<LabelledPicture> train = pets.train.dataset(pets.form);
  for (int64_t i = 0; i < train.size(); ++i) {
    const LabelledPicture p = train.get(i);
    const int level = p.bytes.get()[0];
    CHECK((level >= 160) == (p.label == 1));
    for (int64_t j = 0; j < pets.form.numbers(); ++j) REQUIRE(p.bytes.get()[j] == level);
    levels.insert(level);
  }
  CHECK(levels.size() == 16);

  auto loader = labelled_loader(train, pets.form, {.order = {.batch = 16}});
  const Batch batch = *loader.next();
  CHECK(batch.images.shape() == Shape{16, 3, 12, 12});
  double sum = 0, squares = 0;
  for (const double v : batch.images.to_vector<double>()) sum += v, squares += v * v;
  const auto n = static_cast<double>(batch.images.numel());
  CHECK(std::abs(sum / n) < 1e-6);  // roundings of numbers up to 2 in f32
  CHECK(std::abs(squares / n - 1) < 1e-6);
  CHECK_THROWS_WITH_AS(labelled_kind(dir / "pets/cat"), doctest::Contains("for each class"),
                       IoError);
}

TEST_CASE("labelled pictures: usual_side follows the files; a test set may have a folder") {
  const test::TempDir dir;
  for (const auto& [height, side] : {std::pair(9, 16), {30, 28}, {47, 44}, {300, 48}}) {
    const std::string path = dir / std::to_string(height);
    write_classes(path, 1, height);
    CHECK(usual_side(path, "pictures") == side);
  }
  CHECK(usual_side("", "MNIST") == 28);
  CHECK(usual_side("", "CIFAR-100") == 32);
  write_classes(dir / "two/train", 3, 20);
  write_classes(dir / "two/valid", 1, 20);
  const LabelledPictures two = load_labelled_pictures(dir / "two", 8);
  CHECK(two.train.size() == 6);
  CHECK(two.test.size() == 2);
  CHECK(two.note == "");
  const PictureForm three{.side = 8, .classes = 1};
  auto wrong = labelled_loader(two.train.dataset(three), three, {.order = {.workers = 0}});
  CHECK_THROWS_WITH_AS(wrong.next(), doctest::Contains("the label is 1, there are 1 classes"),
                       Error);
}

}  // namespace tern::datasets::test_labelled_pictures
