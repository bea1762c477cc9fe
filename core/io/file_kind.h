// Recognises the format of a file by its first bytes. Inside of tern only.
#pragma once

#include <cstdint>
#include <string_view>

namespace tern {

/// The number of first bytes that file_kind() looks at.
inline constexpr int64_t kFirstBytes = 512;

// clang-format off
enum class FileKind {
  unknown,
  // Weights and arrays.
  npz, npy, torch_zip, pickle, gguf, hdf5, onnx,
  // Archives and packed files.
  zip, gzip, xz, bzip2, zstd, seven_zip, rar, tar,
  // Pictures and videos.
  png, jpeg, gif, webp, bmp, tiff, avif, heic, heif, video, jpeg_xl, jpeg_2000, photoshop,
  // Documents and others.
  pdf, office, rtf, sqlite, program, apple_double, git_lfs, json
};
// clang-format on

/// The kind of a file that begins with these bytes. Of the known kinds, only JSON and the pointers
/// of Git LFS are text.
FileKind file_kind(std::string_view first_bytes);

/// "a zip archive". REQUIRES: not unknown.
const char* name(FileKind kind);

}  // namespace tern
