#include <fmt/format.h>

#include <string_view>

#include "tern/core/io/file_kind.h"
#include "tern/data/images/detail/decode.h"

namespace tern::datasets {
namespace {

/// The command that makes a PNG file of it; "" if there is none.
const char* converter_of(FileKind kind) {
  switch (kind) {
    case FileKind::webp:
    case FileKind::bmp:
    case FileKind::tiff:
    case FileKind::jpeg_2000:
      return "mogrify -format png FILE (of ImageMagick)";
    case FileKind::gif:
      return "mogrify -format png 'FILE[0]' (of ImageMagick)";
    case FileKind::avif:
    case FileKind::heic:
    case FileKind::heif:
      return "heif-convert FILE FILE.png (of libheif)";
    case FileKind::jpeg_xl:
      return "djxl FILE FILE.png (of libjxl)";
    case FileKind::pdf:
      return "pdftoppm -png FILE FILE (of poppler)";
    case FileKind::git_lfs:
      return "git lfs pull";
    case FileKind::gzip:
      return "gunzip FILE";
    case FileKind::unknown:
    case FileKind::npz:
    case FileKind::npy:
    case FileKind::torch_zip:
    case FileKind::pickle:
    case FileKind::gguf:
    case FileKind::hdf5:
    case FileKind::onnx:
    case FileKind::zip:
    case FileKind::xz:
    case FileKind::bzip2:
    case FileKind::zstd:
    case FileKind::seven_zip:
    case FileKind::rar:
    case FileKind::tar:
    case FileKind::png:
    case FileKind::jpeg:
    case FileKind::video:
    case FileKind::photoshop:
    case FileKind::office:
    case FileKind::rtf:
    case FileKind::sqlite:
    case FileKind::program:
    case FileKind::apple_double:
    case FileKind::json:
      break;
  }
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
