// Folders of pictures as users have them: hidden files, other formats, damaged pictures, names of
// training and test folders, archives.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>

#include "tern/core/io/safetensors.h"
#include "tern/data/images/labelled_pictures.h"
#include "tern/data/images/picture_folder.h"
#include "tern/tests/support/data_files.h"

namespace tern::datasets::test_picture_sets {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

void write_picture(const std::string& path, int level) {
  fs::create_directories(fs::path(path).parent_path());
  save_png(path, {8, 8, std::vector<uint8_t>(3 * 8 * 8, static_cast<uint8_t>(level))});
}

// Writes n pictures for each class. The levels count up from `level`, so that pictures differ.
void write_classes(const std::string& dir, const Names& names, int n, int level = 10) {
  for (const std::string& name : names)
    for (int i = 0; i < n; ++i) write_picture(fmt::format("{}/{}/{}.png", dir, name, i), level++);
}

std::string write_beside(const std::string& path, const std::string& bytes) {
  fs::create_directories(fs::path(path).parent_path());
  return test::write_file(path, bytes);
}

std::string refusal(const std::string& path) {
  return test::io_error([&] { load_labelled_pictures(path, 8); });
}

Names levels(const LabelledSet& set, const PictureForm& form) {
  Names all;
  for (int64_t i = 0; i < set.size(); ++i)
    all.push_back(std::to_string(set.bytes.get()[i * form.numbers()]));
  return all;
}

}  // namespace

TEST_CASE("picture sets: hidden files of macOS, git and Jupyter are not used") {
  const test::TempDir dir;
  write_classes(dir / "pets", {"cat", "dog"}, 10);
  const LabelledPictures clean = load_labelled_pictures(dir / "pets", 8);
  CHECK(clean.remarks.empty());
  for (const char* name : {"cat/._0.jpg", "__MACOSX/cat/._0.jpg", ".git/config", ".DS_Store"})
    write_beside(dir / (std::string("pets/") + name), "no picture");
  write_picture(dir / "pets/.ipynb_checkpoints/1.png", 200);  // would be a third class
  write_picture(dir / "pets/cat/.ipynb_checkpoints/1.png", 200);
  write_picture(dir / "pets/cat/.1.png", 200);
  const LabelledPictures found = load_labelled_pictures(dir / "pets", 8);
  CHECK(found.class_names == Names{"cat", "dog"});
  CHECK(levels(found.train, found.form) == levels(clean.train, clean.form));
  CHECK(levels(found.test, found.form) == levels(clean.test, clean.form));
  CHECK(found.remarks == Names{"7 files were not used: hidden 7"});

  // Nor do they hide that folders are the parts of a set.
  for (const char* part : {"seg_train", "seg_test"}) {
    write_classes(dir / (std::string("parts/") + part), {"cat", "dog"}, 2);
    write_beside(dir / (std::string("parts/") + part + "/._0.jpg"), "no picture");
  }
  const LabelledPictures parts = load_labelled_pictures(dir / "parts", 8);
  CHECK(parts.class_names == Names{"cat", "dog"});
  CHECK(parts.test.size() == 4);
}

TEST_CASE("picture sets: unused files are counted by kind") {
  const test::TempDir dir;
  write_classes(dir / "pets", {"cat", "dog"}, 5);
  write_beside(dir / "pets/cat/a.txt", "x"), write_beside(dir / "pets/cat/deep/b.TXT", "x");
  write_beside(dir / "pets/dog/c.gif", "x"), write_beside(dir / "pets/LICENSE", "x");
  fs::create_symlink("nowhere", dir / "pets/dog/gone.jpg");
  fs::create_directory_symlink("../cat", dir / "pets/dog/cats");
  const PictureFolder found = open_picture_folder(dir / "pets");
  CHECK(found.files.size() == 10);
  CHECK(
      found.unused ==
      UnusedFiles{
          {".txt", 2}, {".gif", 1}, {"LICENSE", 1}, {"broken links", 1}, {"links to folders", 1}});
  const std::string text = unused_text(found.unused);
  CHECK(text.starts_with("6 files were not used: .txt 2, .gif 1, LICENSE 1, "));
  CHECK(test::contains(text, "mogrify -format png"));
  CHECK(unused_text({{".txt", 1}}) == "1 file was not used: .txt 1");
  CHECK(unused_text({}) == "");
  CHECK(load_labelled_pictures(dir / "pets", 8).remarks == Names{text});

  write_picture(dir / "pets/9.png", 9);
  CHECK(open_picture_folder(dir / "pets").unused.at("pictures outside the classes' folders") == 1);
  for (const char* name : {"a.jpe", "b.JFIF", "c.jpeg"}) CHECK(is_picture_file(name));
  write_beside(dir / "pets/bird/a.webp", "x");
  CHECK(
      test::contains(refusal(dir / "pets"),
                     "bird: holds no .png, .jpg or .jpeg file for its class; 1 file was not used: "
                     ".webp 1"));
}

TEST_CASE("picture sets: skip_damaged names damaged pictures and keeps the others in order") {
  const test::TempDir dir;
  write_classes(dir / "pets", {"cat", "dog"}, 10);
  const LabelledPictures whole = load_labelled_pictures(dir / "pets", 8, 3);
  const std::string first = dir / "pets/cat/3.png", second = dir / "pets/dog/7.png";
  const std::string cut = test::read_file(first).substr(0, 40);
  test::write_file(first, cut), test::write_file(second, "no picture");
  constexpr const char* kWayOut = "; --skip-damaged leaves such pictures out";
  CHECK(test::contains(refusal(dir / "pets"), kWayOut));
  const std::string zero = dir / "pets/cat/0.png", picture = test::read_file(zero);
  test::write_file(zero, "no picture");  // the first, whose size is looked at
  CHECK_THROWS_WITH_AS(usual_side(dir / "pets", "pictures", {}), doctest::Contains(kWayOut),
                       IoError);
  test::write_file(zero, picture);
  const LabelledPictures found = load_labelled_pictures(dir / "pets", 8, 3, {.skip_damaged = true});
  const auto without = [](Names all) {  // removes cat/3 and dog/7
    std::erase(all, "13"), std::erase(all, "27");
    return all;
  };
  CHECK(levels(found.train, found.form) == without(levels(whole.train, whole.form)));
  CHECK(levels(found.test, found.form) == without(levels(whole.test, whole.form)));
  CHECK(found.train.size() + found.test.size() == 18);
  for (int64_t i = 0; i < found.train.size(); ++i)
    CHECK((std::stoi(levels(found.train, found.form)[static_cast<size_t>(i)]) >= 20) ==
          (found.train.labels[static_cast<size_t>(i)] == 1));
  REQUIRE(found.remarks.size() == 1);
  CHECK(found.remarks[0].starts_with("2 damaged pictures were left out: "));
  CHECK(test::contains(found.remarks[0], first + ": damaged PNG"));
  CHECK(test::contains(found.remarks[0], second + ": neither a PNG nor a JPEG"));
  CHECK(usual_side(dir / "pets", "pictures", {.skip_damaged = true}) == 16);

  PictureFolder folder = open_picture_folder(dir / "pets");
  const Names errors = folder.drop_damaged();
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].starts_with(first));
  CHECK(folder.files.size() == 18);
  CHECK(folder.files[3].path == dir / "pets/cat/4.png");
  for (int i = 0; i < 10; ++i)
    for (const char* name : {"cat", "dog"})
      write_beside(dir / fmt::format("pets/{}/{}.png", name, i), "");
  CHECK(test::contains(
      test::io_error([&] { load_labelled_pictures(dir / "pets", 8, 3, {.skip_damaged = true}); }),
      "too many pictures are damaged"));
}

TEST_CASE("picture sets: EXIF data turn pictures upright unless .upright = false") {
  const test::TempDir dir;
  const SafeTensors odd =
      load_safetensors(TERN_SOURCE_DIR "/tests/reference/odd_pictures/odd_pictures.safetensors");
  const auto bytes_of = [&](const std::string& name) {
    const std::vector<uint8_t> bytes = odd.find("file." + name).to_vector<uint8_t>();
    return std::string(bytes.begin(), bytes.end());
  };
  for (int i = 0; i < 5; ++i) {
    write_beside(dir / fmt::format("turned/a/{}.jpg", i), bytes_of("turned_3.jpg"));
    write_beside(dir / fmt::format("flat/a/{}.jpg", i), bytes_of("base.jpg"));
  }
  write_classes(dir / "turned", {"b"}, 5), write_classes(dir / "flat", {"b"}, 5);
  const auto planes = [&](const std::string& name, bool upright) {
    const LabelledPictures p =
        load_test_pictures(dir / name, {.side = 16}, {}, 0, {.upright = upright});
    return std::vector<uint8_t>(p.test.bytes.get(),
                                p.test.bytes.get() + p.test.size() * p.form.numbers());
  };
  CHECK(planes("turned", false) == planes("flat", true));
  CHECK(planes("turned", true) != planes("flat", true));
}

TEST_CASE("picture sets: training and test folders are recognised by their usual names") {
  const std::pair<const char*, const char*> kNames[] = {{"train", "test"},
                                                        {"Train", "Test"},
                                                        {"training", "testing"},
                                                        {"train", "validation"},
                                                        {"TRAIN", "val"},
                                                        {"Training", "Valid"},
                                                        {"seg_train", "seg_test"},
                                                        {"train-set", "dev-set"},
                                                        {"training_set", "test_set"},
                                                        {"images_train", "images_val"}};
  for (const auto& names : kNames) {
    const auto& [training, testing] = names;
    CAPTURE(names.first);
    const test::TempDir dir;
    write_classes(dir / training, {"cat", "dog"}, 3, 10);
    write_classes(dir / testing, {"cat", "dog"}, 1, 100);
    const LabelledPictures p = load_labelled_pictures(dir.path(), 8);
    CHECK(p.class_names == Names{"cat", "dog"});
    CHECK(p.train.size() == 6);
    CHECK(p.test.size() == 2);
    CHECK(p.note == "");
    CHECK(p.remarks.size() == (testing == std::string("test") ? 0 : 1));
  }
  const test::TempDir dir;  // some archives repeat the folder inside
  write_classes(dir / "seg_train/seg_train", {"cat", "dog"}, 3, 10);
  write_classes(dir / "seg_test/seg_test", {"cat", "dog"}, 1, 100);
  write_picture(dir / "seg_pred/seg_pred/1.png", 7);
  const LabelledPictures p = load_labelled_pictures(dir.path(), 8);
  CHECK(p.train.size() == 6);
  CHECK(p.remarks == Names{"the test images are those of " + (dir / "seg_test/seg_test"),
                           (dir / "seg_pred") + " was not used; it has 1 picture"});
}

TEST_CASE("picture sets: a third part is reported, and a single part is enough") {
  const test::TempDir dir;
  write_classes(dir / "all/train", {"cat", "dog"}, 3, 10);
  write_classes(dir / "all/val", {"cat", "dog"}, 2, 50);
  write_classes(dir / "all/test", {"cat", "dog"}, 1, 100);
  const LabelledPictures p = load_labelled_pictures(dir / "all", 8);
  CHECK(p.test.size() == 2);
  CHECK(p.remarks == Names{(dir / "all/val") + " was not used; it has 4 pictures"});
  write_picture(dir / "all/loose.png", 9), write_beside(dir / "all/notes.txt", "x");
  const std::string beside =
      "2 files were not used: .txt 1, pictures outside the classes' folders 1";
  CHECK(load_labelled_pictures(dir / "all", 8).remarks.at(0) == beside);
  CHECK(load_test_pictures(dir / "all", {.side = 8}, {"cat", "dog"}).remarks.at(0) == beside);

  // With a test set, any number of others is left out. Without one, two of them are ambiguous.
  for (const char* part : {"train", "test", "val", "eval"})
    write_classes(dir / fmt::format("four/{}", part), {"cat", "dog"}, 1);
  CHECK(load_labelled_pictures(dir / "four", 8).remarks ==
        Names{(dir / "four/eval") + " was not used; it has 2 pictures",
              (dir / "four/val") + " was not used; it has 2 pictures"});
  fs::remove_all(dir / "four/test");
  CHECK(test::contains(refusal(dir / "four"), "eval and val could both be the test pictures"));

  fs::create_directories(dir / "one");
  fs::rename(dir / "all/train", dir / "one/Train");
  const LabelledPictures one = load_labelled_pictures(dir / "one", 8);
  CHECK(one.class_names == Names{"cat", "dog"});
  CHECK(one.train.size() + one.test.size() == 6);
  CHECK(test::contains(refusal(dir / "all"), "but no training set"));
  const LabelledPictures tested = load_test_pictures(dir / "all", {.side = 8}, {});
  CHECK(tested.test.size() == 2);
  CHECK(tested.train.size() == 0);
  fs::remove_all(dir / "all/val");
  CHECK(load_test_pictures(dir / "all", {.side = 8}, {}).test.size() == 2);
}

TEST_CASE("picture sets: folders that may be parts or classes are refused, clear classes are not") {
  const test::TempDir dir;
  write_classes(dir / "folds/a", {"cat", "dog"}, 1);
  write_classes(dir / "folds/b", {"cat", "dog"}, 1);
  CHECK(test::contains(refusal(dir / "folds"),
                       "its folders (a, b) hold folders of the same names (cat, dog)"));
  write_picture(dir / "folds/b/x.png", 3);  // a part of a set has no pictures beside classes
  CHECK(refusal(dir / "folds") == "");

  write_classes(dir / "odd/train", {"cat", "dog"}, 1);
  write_picture(dir / "odd/pred/x.png", 3);
  CHECK(test::contains(refusal(dir / "odd"), "train holds folders (cat, dog)"));
  CHECK(test::contains(refusal(dir / "odd"), "give one part: " + (dir / "odd/train")));
  write_classes(dir / "odd/Train", {"cat", "dog"}, 1);
  CHECK(test::contains(refusal(dir / "odd"), "could both be the training pictures"));

  write_classes(dir / "vehicles", {"car", "train", "bullet train", "dress_test"}, 5);
  CHECK(load_labelled_pictures(dir / "vehicles", 8).class_names ==
        Names{"bullet train", "car", "dress_test", "train"});
  write_picture(dir / "tiny/n01/images/1.png", 1), write_picture(dir / "tiny/n02/images/1.png", 2);
  CHECK(load_labelled_pictures(dir / "tiny", 8).class_names == Names{"n01", "n02"});

  write_classes(dir / "flat", {"train", "test"}, 4);
  CHECK(test::contains(refusal(dir / "flat"),
                       "train: holds 4 pictures but no folder for each class"));
  CHECK(
      test::contains(refusal(dir / "flat/train"), "4 pictures but no folder for each class; move"));
  write_classes(dir / "contest/train", {"cat", "dog"}, 4);
  write_picture(dir / "contest/test/1.png", 1);  // contests keep the labels secret
  CHECK(test::contains(refusal(dir / "contest"), "contest/test: its pictures are not in folders"));
  CHECK(test::contains(refusal(dir / "contest"), "give only " + (dir / "contest/train")));
  write_classes(dir / "outer/inner", {"cat", "dog"}, 1);
  CHECK(test::contains(refusal(dir / "outer"),
                       "has one class (inner); a classifier needs two. If its folders are the "
                       "classes (cat, dog), give " +
                           (dir / "outer/inner")));
  write_classes(dir / "two/train", {"cat", "dog", "emu"}, 1);
  write_classes(dir / "two/test", {"cat", "bee"}, 1);
  CHECK(test::contains(refusal(dir / "two"), "their classes are not the same; " +
                                                 (dir / "two/test") + " has no dog, emu; " +
                                                 (dir / "two/train") + " has no bee"));
}

TEST_CASE("picture sets: load_test_pictures labels pictures by the model's class names") {
  const test::TempDir dir;
  write_classes(dir / "new", {"cat", "emu"}, 3);
  const Names classes = {"bee", "cat", "dog", "emu"};
  const LabelledPictures p = load_test_pictures(dir / "new", {.side = 8}, classes);
  CHECK(p.class_names == classes);
  CHECK(p.form.classes == 4);
  CHECK(p.test.size() == 6);
  for (const int64_t label : p.test.labels) CHECK((label == 1 || label == 3));
  CHECK(p.remarks == Names{(dir / "new") + " has no pictures of bee, dog"});
  CHECK(test::contains(test::io_error([&] {
                         load_test_pictures(dir / "new", {.side = 8}, {"bee", "cat"});
                       }),
                       "its folder emu is not one of the classes that the model was trained on: "
                       "bee, cat"));
  // A model of grey pictures gets the luminance: for red .299 * 100 = 29.9.
  std::vector<uint8_t> red(3 * 8 * 8);
  for (size_t i = 0; i < red.size(); i += 3) red[i] = 100;
  for (const char* name : {"grey/a", "grey/b"}) {
    fs::create_directories(dir / name);
    save_png(dir / (std::string(name) + "/1.png"), {8, 8, red});
  }
  const LabelledPictures grey = load_test_pictures(dir / "grey", {.side = 8, .channels = 1}, {});
  CHECK(grey.form.channels == 1);
  CHECK(grey.form.numbers() == 64);
  CHECK(levels(grey.test, grey.form) == Names{"30", "30"});
  write_classes(dir / "split/train", {"cat", "emu"}, 2);
  write_classes(dir / "split/test", {"cat", "emu"}, 1);
  const LabelledPictures test = load_test_pictures(dir / "split", {.side = 8}, {"cat", "emu"});
  CHECK(test.test.size() == 2);
  CHECK(test.remarks == Names{(dir / "split/train") + " was not used; it has 4 pictures"});
}

TEST_CASE("picture sets: the error of another archive or a text names it and what to do") {
  const test::TempDir dir;
  const std::pair<std::string, const char*> kFiles[] = {
      {std::string("PK\3\4") + std::string(600, '\1'),
       "a zip archive; unpack it and give the folder: unzip '"},
      {std::string("\xfd"
                   "7zXZ\0",
                   6),
       "an xz file; unpack it and give the folder: tar xf '"},
      {"BZh91AY&SY", "a bzip2 file"},
      {"\x28\xb5\x2f\xfd", "a Zstandard file"},
      {"Rar!\x1a\7", "a rar archive"},
      {"7z\xbc\xaf\x27\x1c", "a 7z archive"},
      {"\x89PNG\r\n\x1a\n", "is one picture"},
      {"cat,dog\n", "is a text or an empty file, not a tar archive"},
      {std::string(5000, 'x'), "is a text or an empty file, not a tar archive"},
      {"", "is a text or an empty file, not a tar archive"}};
  for (const auto& file : kFiles)
    CHECK_MESSAGE(
        test::contains(refusal(test::write_file(dir / "some file", file.first)), file.second),
        file.second);
  const std::string tar = test::tar_member("cat/1.jpg", "x") + test::tar_member("._1.jpg", "x") +
                          test::tar_member("dog/1.PNG", "x") + test::kTarEnd;
  for (const std::string& bytes : {tar, test::gzip(tar)})
    CHECK(test::contains(refusal(test::write_file(dir / "pets.tar", bytes)),
                         "an archive of 2 pictures; unpack it and give the folder: tar xf "));
}

}  // namespace tern::datasets::test_picture_sets
