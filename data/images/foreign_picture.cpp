#include <array>
#include <string_view>

#include "tern/data/images/detail/decode.h"

namespace tern::datasets {
namespace {

using std::string_view_literals::operator""sv;

struct PictureFormat {
  size_t at;  // where these bytes stand
  std::string_view magic, begins;
  const char* name;
  const char* convert = "";
};

constexpr const char* kMogrify = "mogrify -format png FILE (of ImageMagick)";
constexpr const char* kHeif = "heif-convert FILE FILE.png (of libheif)";

constexpr std::array kPictureFormats = {
    PictureFormat{8, "WEBP", "RIFF", "a WebP file", kMogrify},
    PictureFormat{0, "GIF8", "", "a GIF file", "mogrify -format png 'FILE[0]' (of ImageMagick)"},
    PictureFormat{0, "BM", "", "a BMP file", kMogrify},
    PictureFormat{0, "II*\0"sv, "", "a TIFF file", kMogrify},
    PictureFormat{0, "MM\0*"sv, "", "a TIFF file", kMogrify},
    PictureFormat{4, "ftypavi", "", "an AVIF file", kHeif},
    PictureFormat{4, "ftyphei", "", "a HEIC file", kHeif},
    PictureFormat{4, "ftyphev", "", "a HEIC file", kHeif},
    PictureFormat{4, "ftypmif1", "", "a HEIC or AVIF file", kHeif},
    PictureFormat{4, "ftyp", "", "a video"},
    PictureFormat{0, "\xff\x0a", "", "a JPEG XL file", "djxl FILE FILE.png (of libjxl)"},
    PictureFormat{4, "JXL ", "", "a JPEG XL file", "djxl FILE FILE.png (of libjxl)"},
    PictureFormat{4, "jP  ", "", "a JPEG 2000 file", kMogrify},
    PictureFormat{0, "8BPS", "", "a Photoshop file", kMogrify},
    PictureFormat{0, "%PDF", "", "a PDF", "pdftoppm -png FILE FILE (of poppler)"},
    PictureFormat{0, "\0\5\x16\7"sv, "", "an AppleDouble file, which Macs write beside files"},
    PictureFormat{0, "version https://git-lfs", "", "a pointer of Git LFS", "git lfs pull"},
    PictureFormat{0, "PK\3\4", "", "a zip archive"},
    PictureFormat{0, "\x1f\x8b", "", "packed by gzip", "gunzip FILE"},
};

}  // namespace

std::string detail::describe_foreign_picture(std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.empty()) return "the file is empty (at byte 0)";
  for (const PictureFormat& f : kPictureFormats)
    if (text.size() >= f.at && text.starts_with(f.begins) &&
        text.substr(f.at).starts_with(f.magic)) {
      const std::string what =
          std::string("neither a PNG nor a JPEG file (at byte 0): it is ") + f.name;
      return *f.convert ? what + "; convert it: " + f.convert : what;
    }
  const size_t word = text.find_first_not_of(" \t\r\n");
  if (word != text.npos && text[word] == '<')
    return "neither a PNG nor a JPEG file (at byte 0): it is a web page or another XML text, as a "
           "failed download leaves it";
  return "neither a PNG nor a JPEG file (at byte 0)";
}

}  // namespace tern::datasets
