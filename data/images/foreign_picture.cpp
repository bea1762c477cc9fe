// Names the format of a file that is neither PNG nor JPEG, and how to get a picture from it.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "tern/core/io/file_kind.h"
#include "tern/data/images/detail/decode.h"

namespace tern::datasets {
namespace {

constexpr std::pair<FileKind, const char*> kRemedies[] = {
    {FileKind::webp, "convert it: mogrify -format png FILE (of ImageMagick)"},
    {FileKind::bmp, "convert it: mogrify -format png FILE (of ImageMagick)"},
    {FileKind::tiff, "convert it: mogrify -format png FILE (of ImageMagick)"},
    {FileKind::jpeg_2000, "convert it: mogrify -format png FILE (of ImageMagick)"},
    {FileKind::gif, "convert it: mogrify -format png 'FILE[0]' (of ImageMagick)"},
    {FileKind::avif, "convert it: heif-convert FILE FILE.png (of libheif)"},
    {FileKind::heic, "convert it: heif-convert FILE FILE.png (of libheif)"},
    {FileKind::heif, "convert it: heif-convert FILE FILE.png (of libheif)"},
    {FileKind::jpeg_xl, "convert it: djxl FILE FILE.png (of libjxl)"},
    {FileKind::pdf, "convert it: pdftoppm -png FILE FILE (of poppler)"},
    {FileKind::git_lfs, "git lfs pull fetches the picture"},
    {FileKind::gzip, "unpack it: gunzip FILE"},
};

/// How to get a readable picture from a file of this kind; "" if no way is known.
const char* remedy_for(FileKind kind) {
  for (const auto& [known, text] : kRemedies)
    if (known == kind) return text;
  return "";
}

}  // namespace

std::string detail::describe_foreign_picture(std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.empty()) return "the file is empty (at byte 0)";
  const std::string neither = "neither a PNG nor a JPEG file (at byte 0)";
  if (const FileKind kind = file_kind(text); kind != FileKind::unknown) {
    const char* const remedy = remedy_for(kind);
    return fmt::format("{}: it is {}{}{}", neither, name(kind), *remedy ? "; " : "", remedy);
  }
  const size_t word = text.find_first_not_of(" \t\r\n");
  if (word != text.npos && text[word] == '<')
    return neither + ": it is a web page or another XML text, as a failed download leaves it";
  return neither;
}

}  // namespace tern::datasets
