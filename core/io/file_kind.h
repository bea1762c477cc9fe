// What a file is by its first bytes. Inside of tern only.
#pragma once

#include <cstdint>
#include <string_view>

namespace tern {

/// So many bytes of a file are enough to tell what it is.
inline constexpr int64_t kFirstBytes = 512;

enum class FileKind {
  unknown,
  // Weights and arrays.
  npz,
  npy,
  torch_zip,
  pickle,
  gguf,
  hdf5,
  onnx,
  // Archives and packed files.
  zip,
  gzip,
  xz,
  bzip2,
  zstd,
  seven_zip,
  rar,
  tar,
  // Pictures and videos.
  png,
  jpeg,
  gif,
  webp,
  bmp,
  tiff,
  avif,
  heic,
  heif,
  video,
  jpeg_xl,
  jpeg_2000,
  photoshop,
  // Documents and others.
  pdf,
  office,
  rtf,
  sqlite,
  program,
  apple_double,
  git_lfs,
  json,
};

/// The kind of a file that begins with these bytes. No text begins as one of them but JSON, and
/// what Git LFS leaves in place of a file.
FileKind file_kind(std::string_view first_bytes);

/// "a zip archive". REQUIRES: not unknown.
const char* name(FileKind kind);

}  // namespace tern
