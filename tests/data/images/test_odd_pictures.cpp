// Files as cameras, old programs and careless copies make them, and what Pillow reads in them
// (tests/reference/odd_pictures/make_odd_pictures.py).
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "tern/core/io/safetensors.h"
#include "tern/data/images/picture.h"
#include "tern/tests/support/data_files.h"

namespace tern::datasets::test_odd_pictures {
namespace {

struct OddFile {
  std::vector<uint8_t> bytes;
  Tensor pixels;  // as Pillow reads them; undefined if it refuses the file
};

const std::map<std::string, OddFile>& odd_files() {
  static const std::map<std::string, OddFile> kFiles = [] {
    std::map<std::string, OddFile> files;
    for (const auto& [name, t] :
         load_safetensors(TERN_SOURCE_DIR "/tests/reference/odd_pictures/odd_pictures.safetensors")
             .tensors) {
      const size_t dot = name.find('.');
      OddFile& file = files[name.substr(dot + 1)];
      if (name.starts_with("file."))
        file.bytes = t.to_vector<uint8_t>();
      else
        file.pixels = t;
    }
    return files;
  }();
  return kFiles;
}

std::string refusal(const std::string& name) {
  return test::io_error([&] { decode_picture(odd_files().at(name).bytes, "x"); });
}

}  // namespace

TEST_CASE("odd pictures: files that Pillow reads give its pixels, others are refused") {
  // Pillow fills these with grey or skips their checksum: pixels are wrong or may be wrong.
  const std::set<std::string> stricter = {"bad_code.jpg", "restart_lost.jpg", "wrong_checksum.png",
                                          "no_checksum_no_end.png"};
  // Formats that have a converter (below).
  const std::set<std::string> others = {"webp.jpg", "gif.jpg", "bmp.jpg", "tiff.jpg"};
  int read = 0, refused = 0;
  for (const auto& entry : odd_files()) {
    const auto& [name, file] = entry;
    CAPTURE(entry.first);
    if (name == "wrong_checksum_of_text.png") continue;  // Pillow refuses it; no pixel is wrong
    if (!file.pixels.defined() || stricter.contains(name) || others.contains(name)) {
      CHECK(test::contains(refusal(name), "at byte"));
      ++refused;
      continue;
    }
    const Picture found = decode_picture(file.bytes, "x");
    REQUIRE(Shape({found.height, found.width, 3}) == file.pixels.shape());
    CHECK(found.rgb == file.pixels.to_vector<uint8_t>());
    ++read;
  }
  CHECK(read == 31);
  CHECK(refused == 14);
  CHECK(decode_picture(odd_files().at("wrong_checksum_of_text.png").bytes, "x").rgb ==
        odd_files().at("plain.png").pixels.to_vector<uint8_t>());
}

TEST_CASE("odd pictures: odd headers change no pixel") {
  const std::vector<uint8_t> base = odd_files().at("base.jpg").pixels.to_vector<uint8_t>();
  for (const char* name :
       {"sos_starts_at_1.jpg", "sos_ends_at_0.jpg", "sos_low_bit_1.jpg", "jfif_2_1.jpg",
        "jfif_0_0.jpg", "bytes_between_markers.jpg", "restart_number.jpg", "exif_cut.jpg"})
    CHECK_MESSAGE(decode_picture(odd_files().at(name).bytes, "x").rgb == base, name);
}

TEST_CASE("odd pictures: EXIF data turn a picture upright unless .upright = false") {
  const Picture base = decode_picture(odd_files().at("base.jpg").bytes, "x");
  for (int o = 1; o <= 8; ++o) {
    CAPTURE(o);
    const std::vector<uint8_t>& bytes = odd_files().at(fmt::format("turned_{}.jpg", o)).bytes;
    CHECK(decode_picture(bytes, "x", {.upright = false}).rgb == base.rgb);
    const Picture upright = decode_picture(bytes, "x");
    CHECK(upright.height == (o < 5 ? base.height : base.width));
    CHECK((upright.rgb == base.rgb) == (o == 1));
  }
  const Picture flat = decode_picture(odd_files().at("turned.png").bytes, "x", {.upright = false});
  CHECK(flat.rgb == odd_files().at("plain.png").pixels.to_vector<uint8_t>());
}

TEST_CASE("odd pictures: the error of another format names it and its converter") {
  for (const auto& [name, format] : {std::pair("webp.jpg", "a WebP file"),
                                     {"gif.jpg", "a GIF file"},
                                     {"bmp.jpg", "a BMP file"},
                                     {"tiff.jpg", "a TIFF file"}}) {
    CHECK(test::contains(refusal(name), std::string("it is ") + format + "; convert it: mogrify"));
  }
  CHECK(test::contains(refusal("apple_double.jpg"), "AppleDouble"));
  CHECK(test::contains(refusal("web_page.jpg"), "a web page"));
  CHECK(refusal("empty.jpg") == "x: the file is empty (at byte 0)");
  const auto named = [](const std::string& text) {
    return test::io_error(
        [&] { decode_picture(std::vector<uint8_t>(text.begin(), text.end()), "x"); });
  };
  CHECK(test::contains(named(std::string("\0\0\0\x18", 4) + "ftypheic"),
                       "a HEIC file; convert it: "
                       "heif-convert"));
  CHECK(test::contains(named(std::string("\0\0\0\x18", 4) + "ftypavif"), "an AVIF file"));
  CHECK(named("word") == "x: neither a PNG nor a JPEG file (at byte 0)");
}

}  // namespace tern::datasets::test_odd_pictures
