// The first bytes of known file formats, in a table that is searched in order, and their names.
#include "tern/core/io/file_kind.h"

#include <algorithm>

#include "tern/core/base/error.h"

namespace tern {
namespace {

using std::string_view_literals::operator""sv;

struct Row {
  FileKind kind;
  const char* name;
  std::string_view magic;       // a ? matches any byte
  size_t at = 0;                // offset of the magic
  std::string_view holds = {};  // must occur somewhere in the first bytes
};

constexpr Row kRows[] = {
    {FileKind::torch_zip, "a PyTorch file", "PK\3\4", 0, "/data.pkl"},
    {FileKind::npz, "a NumPy npz file", "PK\3\4", 0, ".npy"},
    {FileKind::zip, "a zip archive", "PK\3\4"},
    {FileKind::pickle, "a PyTorch file of before version 1.6 or another Python pickle", "\x80\2"},
    {FileKind::pickle, "a PyTorch file of before version 1.6 or another Python pickle", "\x80\3"},
    {FileKind::pickle, "a PyTorch file of before version 1.6 or another Python pickle", "\x80\4"},
    {FileKind::pickle, "a PyTorch file of before version 1.6 or another Python pickle", "\x80\5"},
    {FileKind::gguf, "a llama.cpp GGUF file", "GGUF?\0\0\0"sv},
    {FileKind::hdf5, "an HDF5 file (Keras writes such files)", "\x89HDF\r\n\x1a\n"},
    {FileKind::npy, "a NumPy npy file (one array without a name)", "\x93NUMPY"},
    {FileKind::onnx, "an ONNX file", "\x08?\x12"},
    {FileKind::onnx, "an ONNX file", "\x08?:"},
    {FileKind::gzip, "a gzip file", "\x1f\x8b"},
    {FileKind::xz, "an xz file",
     "\xfd"
     "7zXZ\0"sv},
    {FileKind::bzip2, "a bzip2 file", "BZh?1AY&SY"},
    {FileKind::zstd, "a Zstandard file", "\x28\xb5\x2f\xfd"},
    {FileKind::seven_zip, "a 7z archive", "7z\xbc\xaf\x27\x1c"},
    {FileKind::rar, "a rar archive", "Rar!\x1a\7"},
    {FileKind::tar, "a tar archive", "ustar", 257},
    {FileKind::png, "a PNG file", "\x89PNG\r\n"},
    {FileKind::jpeg, "a JPEG file", "\xff\xd8\xff"},
    {FileKind::gif, "a GIF file", "GIF87a"},
    {FileKind::gif, "a GIF file", "GIF89a"},
    {FileKind::webp, "a WebP file", "RIFF????WEBP"},
    {FileKind::bmp, "a BMP file", "BM????\0\0\0\0"sv},
    {FileKind::tiff, "a TIFF file", "II*\0"sv},
    {FileKind::tiff, "a TIFF file", "MM\0*"sv},
    {FileKind::avif, "an AVIF file", "\0???ftypavi"sv},
    {FileKind::heic, "a HEIC file", "\0???ftyphei"sv},
    {FileKind::heic, "a HEIC file", "\0???ftyphev"sv},
    {FileKind::heif, "a HEIC or AVIF file", "\0???ftypmif1"sv},
    {FileKind::video, "a video", "\0???ftyp"sv},
    {FileKind::jpeg_xl, "a JPEG XL file", "\xff\x0a"},
    {FileKind::jpeg_xl, "a JPEG XL file", "\0\0\0?JXL "sv},
    {FileKind::jpeg_2000, "a JPEG 2000 file", "\0\0\0?jP  "sv},
    {FileKind::photoshop, "a Photoshop file", "8BPS\0"sv},
    {FileKind::pdf, "a PDF file", "%PDF-"},
    {FileKind::office, "a Word, Excel or Outlook file", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"},
    {FileKind::rtf, "an RTF file", "{\\rtf"},
    {FileKind::sqlite, "an SQLite database", "SQLite format 3\0"sv},
    {FileKind::program, "a program",
     "\x7f"
     "ELF"},
    {FileKind::apple_double, "an AppleDouble file, which Macs write beside files", "\0\5\x16\7"sv},
    {FileKind::git_lfs, "a Git LFS pointer", "version https://git-lfs"},
    {FileKind::json, "a JSON file", "{"},
};

bool begins_with(std::string_view bytes, std::string_view magic) {
  return bytes.size() >= magic.size() &&
         std::equal(magic.begin(), magic.end(), bytes.begin(),
                    [](char m, char b) { return m == '?' || m == b; });
}

}  // namespace

FileKind file_kind(std::string_view bytes) {
  bytes = bytes.substr(0, kFirstBytes);
  for (const Row& row : kRows)
    if (bytes.size() > row.at && begins_with(bytes.substr(row.at), row.magic) &&
        bytes.find(row.holds) != bytes.npos)
      return row.kind;
  return FileKind::unknown;
}

const char* name(FileKind kind) {
  for (const Row& row : kRows)
    if (row.kind == kind) return row.name;
  fail("file_kind: unknown");
}

}  // namespace tern
