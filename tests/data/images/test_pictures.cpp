// Pictures of any size: files, sizes and folders, compared with Pillow and torchvision
// (tests/reference/pictures/make_pictures.py).
#include <doctest/doctest.h>

#include <filesystem>

#include "tern/core/io/safetensors.h"
#include "tern/core/ops/ops.h"
#include "tern/data/images/picture.h"
#include "tern/data/images/picture_folder.h"
#include "tern/tests/support/data_files.h"

namespace tern::test::test_pictures {
namespace {

namespace fs = std::filesystem;
using datasets::Filter;
using datasets::Picture;

const std::string kFolder = TERN_SOURCE_DIR "/tests/reference/pictures/";

const SafeTensors& reference() {
  static const SafeTensors kFile = load_safetensors(kFolder + "pictures.safetensors");
  return kFile;
}

void check_same(const std::string& what, const Picture& got, const Tensor& want) {
  REQUIRE_MESSAGE(want.defined(), what);
  CHECK_MESSAGE(Shape({got.height, got.width, 3}) == want.shape(), what);
  const std::vector<uint8_t> bytes = want.to_vector<uint8_t>();
  REQUIRE_MESSAGE(bytes.size() == got.rgb.size(), what);
  int worst = 0;
  for (size_t i = 0; i < bytes.size(); ++i)
    worst = std::max(worst, std::abs(bytes[i] - got.rgb[i]));
  CHECK_MESSAGE(worst == 0, what, ": ", worst);
}

Picture rgb() { return datasets::load_picture(kFolder + "rgb.png"); }

std::vector<uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }

std::string complaint(const std::string& bytes, const datasets::DecodeOptions& options = {}) {
  return io_error([&] { datasets::decode_picture(bytes_of(bytes), "x", options); });
}

}  // namespace

TEST_CASE("pictures: every kind of PNG and JPEG is read as Pillow reads it") {
  int files = 0;
  for (const auto& entry : reference().tensors) {
    const std::string& name = entry.first;
    if (!name.ends_with(".png") && !name.ends_with(".jpg")) continue;
    ++files;
    check_same(name, datasets::load_picture(kFolder + name), entry.second);
  }
  CHECK(files == 16);
}

TEST_CASE("pictures: resized pictures equal Pillow's, byte for byte") {
  for (const auto& [name, want] : reference().tensors) {
    const bool cubic = name.starts_with("bicubic."), linear = name.starts_with("bilinear.");
    if (cubic || linear)
      check_same(
          name,
          resize(rgb(), want.size(0), want.size(1), cubic ? Filter::bicubic : Filter::bilinear),
          want);
  }
  for (int64_t n : {15, 40}) {
    const Picture resized = datasets::resize_shorter(rgb(), n);
    check_same("shorter", resized, reference().find(fmt::format("shorter.{}", n)));
    check_same("center", datasets::center_crop(resized, n, n),
               reference().find(fmt::format("center.{}", n)));
  }
}

TEST_CASE("pictures: crop, mirror, conversion to tensors, PNG files") {
  const Picture x = rgb();
  const Picture part = datasets::crop(x, 3, 5, 10, 20);
  for (int64_t r = 0; r < 10; ++r)
    for (int64_t c = 0; c < 60; ++c) CHECK(part.row(r)[c] == x.row(r + 3)[15 + c]);
  CHECK(datasets::mirror(datasets::mirror(x)).rgb == x.rgb);
  CHECK(datasets::mirror(x).row(2)[0] == x.row(2)[3 * (x.width - 1)]);
  const Tensor t = datasets::to_tensor(x);
  CHECK(t.shape() == Shape({3, x.height, x.width}));
  CHECK(t[1][4][7].item<uint8_t>() == x.row(4)[3 * 7 + 1]);
  CHECK(datasets::to_picture(t).rgb == x.rgb);
  CHECK(datasets::to_picture(flip(t, 2)).rgb == datasets::mirror(x).rgb);
  TempDir dir;
  datasets::save_png(dir / "x.png", x);
  CHECK(datasets::load_picture(dir / "x.png").rgb == x.rgb);
  CHECK_THROWS_AS(datasets::crop(x, 0, 0, 24, 3), Error);
  CHECK_THROWS_AS(datasets::crop(x, -1, 0, 3, 3), Error);
  CHECK_THROWS_AS(datasets::crop(x, INT64_MAX, 0, 3, 3), Error);
  CHECK_THROWS_AS(datasets::center_crop(x, 40, 3), Error);
  CHECK_THROWS_AS(datasets::resize(x, 0, 3), Error);
  CHECK_THROWS_AS(datasets::resize(x, int64_t{1} << 40, 3), Error);
  CHECK_THROWS_AS(datasets::to_picture(zeros({3, 2, 2})), Error);
  CHECK_THROWS_AS(datasets::save_png(dir / "y.png", {3, 3, {}}), Error);
  CHECK_FALSE(fs::exists(dir / "y.png"));
}

TEST_CASE("pictures: damaged and truncated files are errors with file and position") {
  for (const char* name :
       {"rgb.png", "interlaced.png", "jpeg.jpg", "progressive.jpg", "cmyk.jpg"}) {
    const std::string whole = read_file(kFolder + name);
    for (size_t length = 0; length + 20 < whole.size(); length += 61) {
      const std::string text = complaint(whole.substr(0, length));
      CHECK_MESSAGE(contains(text, "x: "), name, " of ", length);
      CHECK_MESSAGE(contains(text, "at byte"), name, " of ", length, ": ", text);
    }
    // Any bytes give a picture or an IoError.
    Rng rng(1);
    for (int round = 0; round < 300; ++round) {
      std::string broken = whole;
      for (int k = 0; k < 3; ++k)
        broken[static_cast<size_t>(rng.below(std::ssize(broken)))] =
            static_cast<char>(rng.below(256));
      try {
        datasets::decode_picture(bytes_of(broken), "x");
      } catch (const IoError&) {
      }
    }
  }
  CHECK(complaint("GIF") == "x: neither a PNG nor a JPEG file (at byte 0)");
  CHECK(contains(io_error([] { datasets::load_picture("/nowhere.png"); }), "/nowhere.png"));
}

TEST_CASE("pictures: claimed sizes are checked before memory is allocated") {
  std::string png = read_file(kFolder + "rgb.png");
  CHECK(contains(complaint(png, {.max_pixels = 800}), "23 x 38 pixels are over the limit of 800"));
  // An IHDR of 9000 x 9000 with the right checksum.
  std::string large = png;
  large.replace(16, 8, std::string("\0\0\x23\x28\0\0\x23\x28", 8));
  const auto crc =
      static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(large.data() + 12), 17));
  for (int i = 0; i < 4; ++i) large[29 + i] = static_cast<char>(crc >> (24 - 8 * i));
  CHECK(contains(complaint(large), "claims 9000 x 9000 pixels in"));
  std::string jpeg = read_file(kFolder + "jpeg.jpg");
  const size_t frame = jpeg.find("\xff\xc0");
  REQUIRE(frame != jpeg.npos);
  jpeg.replace(frame + 5, 4, "\x23\x28\x23\x28");
  CHECK(contains(complaint(jpeg), "claims 9000 x 9000 pixels in"));
}

TEST_CASE("picture folder: one folder per class, in ascending order; other files are skipped") {
  TempDir dir;
  const std::string png = read_file(kFolder + "rgb.png"), jpg = read_file(kFolder + "gray.jpg");
  for (const char* folder : {"b", "a", "a/deep"}) fs::create_directories(dir / folder);
  write_file(dir / "b/2.PNG", png), write_file(dir / "b/1.jpeg", jpg);
  write_file(dir / "a/deep/z.jpg", jpg), write_file(dir / "a/notes.txt", "no");
  write_file(dir / "list.txt", "no");
  const datasets::PictureFolder found = datasets::open_picture_folder(dir.path());
  CHECK(found.class_names == std::vector<std::string>{"a", "b"});
  REQUIRE(found.files.size() == 3);
  CHECK(found.files[0].path == dir / "a/deep/z.jpg");
  CHECK(found.files[1].path == dir / "b/1.jpeg");
  CHECK(found.files[2].label == 1);
  CHECK(found.dataset().get(2).picture.rgb == rgb().rgb);
  CHECK(found.dataset().get(2).label == 1);

  fs::create_directories(dir / "c");
  CHECK(contains(io_error([&] { datasets::open_picture_folder(dir.path()); }),
                 "c: holds no .png, .jpg or .jpeg file"));
  CHECK(contains(io_error([&] { datasets::open_picture_folder(dir / "none"); }), "no such folder"));
  CHECK(contains(io_error([&] { datasets::open_picture_folder(dir / "c"); }), "holds no folders"));
  // A damaged file is named with the place in the epoch.
  fs::remove(dir / "c");
  write_file(dir / "b/2.PNG", png.substr(0, 200));
  auto loader = datasets::picture_loader(datasets::open_picture_folder(dir.path()).dataset(),
                                         {.order = {.batch = 3, .shuffle = false}, .size = 8});
  const std::string text = io_error([&] { loader.next(); });
  CHECK(contains(text, "epoch 0, batch 0, sample 2"));
  CHECK(contains(text, "b/2.PNG: damaged PNG"));
}

TEST_CASE("picture loader: evaluation equals torchvision's; training depends only on the seed") {
  TempDir dir;
  for (int i = 0; i < 6; ++i) {
    fs::create_directories(dir / fmt::format("{}", i % 2));
    write_file(dir / fmt::format("{}/{}.png", i % 2, i), read_file(kFolder + "rgb.png"));
  }
  const auto dataset = datasets::open_picture_folder(dir.path()).dataset();
  datasets::PictureLoaderOptions plain{.order = {.batch = 4, .shuffle = false},
                                       .size = 15,
                                       .shorter = 15,
                                       .normalization = {{0, 0, 0}, {1, 1, 1}}};
  auto loader = datasets::picture_loader(dataset, plain);
  const datasets::Batch batch = *loader.next();
  CHECK(batch.images.shape() == Shape({4, 3, 15, 15}));
  CHECK(batch.labels.to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0, 1});
  const Tensor want = permute(reference().find("center.15"), {2, 0, 1}).to(DType::f32) / 255;
  CHECK(all_close(batch.images[3], want, 0, 1e-6));

  auto epoch = [&](int workers, uint64_t seed) {
    datasets::PictureLoaderOptions o{.order = {.batch = 4, .seed = seed, .workers = workers},
                                     .size = 16,
                                     .augment = true,
                                     .filter = Filter::bicubic};
    std::vector<float> out;
    auto train = datasets::picture_loader(dataset, o);
    for (datasets::Batch& b : train)
      for (float v : b.images.to_vector<float>()) out.push_back(v);
    return out;
  };
  CHECK(epoch(0, 1) == epoch(3, 1));
  CHECK(epoch(0, 1) != epoch(0, 2));
  // Very long pictures have no part with an allowed ratio, so the loader takes the middle.
  const Picture strip = datasets::resize(rgb(), 2, 400);
  Rng rng(2);
  for (int i = 0; i < 20; ++i) {
    const Picture y = datasets::fit_picture(strip, {.size = 9, .augment = true}, rng);
    CHECK(y.height == 9);
    CHECK(y.width == 9);
  }
  CHECK_THROWS_AS(datasets::picture_loader(dataset, {.size = 0}), Error);
  CHECK_THROWS_AS(datasets::picture_loader(dataset, {.size = 1 << 20}), Error);
  CHECK_THROWS_AS(datasets::picture_loader(dataset, {.size = 9, .shorter = 8}), Error);
  CHECK_THROWS_AS(datasets::picture_loader(dataset, {.scale = {1, .5}}), Error);
  CHECK_THROWS_WITH_AS(datasets::picture_loader(dataset, {.mirrored = 50}),
                       "picture_loader: mirrored is 50; a share is 0 to 1", Error);
}

}  // namespace tern::test::test_pictures
