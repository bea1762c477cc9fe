// Names the format of a file that is neither PNG nor JPEG, and the command that converts it.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "tern/core/io/file_kind.h"
#include "tern/data/images/detail/decode.h"

namespace tern::datasets {
namespace {

constexpr std::pair<FileKind, const char*> kConverters[] = {
    {FileKind::webp, "mogrify -format png FILE (of ImageMagick)"},
    {FileKind::bmp, "mogrify -format png FILE (of ImageMagick)"},
    {FileKind::tiff, "mogrify -format png FILE (of ImageMagick)"},
    {FileKind::jpeg_2000, "mogrify -format png FILE (of ImageMagick)"},
    {FileKind::gif, "mogrify -format png 'FILE[0]' (of ImageMagick)"},
    {FileKind::avif, "heif-convert FILE FILE.png (of libheif)"},
    {FileKind::heic, "heif-convert FILE FILE.png (of libheif)"},
    {FileKind::heif, "heif-convert FILE FILE.png (of libheif)"},
    {FileKind::jpeg_xl, "djxl FILE FILE.png (of libjxl)"},
    {FileKind::pdf, "pdftoppm -png FILE FILE (of poppler)"},
    {FileKind::git_lfs, "git lfs pull"},
    {FileKind::gzip, "gunzip FILE"},
};

/// The command that makes a file of this kind readable; "" if there is none.
const char* converter_of(FileKind kind) {
  for (const auto& [known, text] : kConverters)
    if (known == kind) return text;
  return "";
}

}  // namespace

std::string detail::describe_foreign_picture(std::span<const uint8_t> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.empty()) return "the file is empty (at byte 0)";
  const std::string neither = "neither a PNG nor a JPEG file (at byte 0)";
  if (const FileKind kind = file_kind(text); kind != FileKind::unknown) {
    const char* const convert = converter_of(kind);
    return fmt::format("{}: it is {}{}{}", neither, name(kind), *convert ? "; convert it: " : "",
                       convert);
  }
  const size_t word = text.find_first_not_of(" \t\r\n");
  if (word != text.npos && text[word] == '<')
    return neither + ": it is a web page or another XML text, as a failed download leaves it";
  return neither;
}

}  // namespace tern::datasets
