// Reading and writing safetensors files, the format for weights in PyTorch's ecosystem.
// https://github.com/huggingface/safetensors#format
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// Named tensors in order, and metadata.
struct SafeTensors {
  std::vector<std::pair<std::string, Tensor>> tensors;
  std::map<std::string, std::string> metadata;
  /// The tensor with this name; undefined if there is none.
  Tensor find(const std::string& name) const;
};

/// Limits of the memory that a file may take beside its elements. Metadata takes about ten times
/// its text in the header, which has at most 100 MB. An index of shards has at most 64 MiB, and
/// takes about twenty times its text while it is read.
struct SafeTensorsLimits {
  int64_t tensors = 100'000;  ///< each takes about a kilobyte beside its elements
};

/// Reads a whole file. If it does not exist, but PATH.index.json does, reads the shards that this
/// index names. Files are not trusted: sizes, offsets, overlaps, shapes, types and `limits` are
/// checked before tensors are allocated. An IoError names the file and the fault; for a missing
/// file also the other files of weights in its folder. F16 and BF16 become f32; BOOL becomes u8;
/// I8, I16, I32, U16 and U32 become i64, which takes up to eight times their size.
SafeTensors load_safetensors(const std::string& path, const SafeTensorsLimits& limits = {});

/// A file, or the shards of one, that is open: its tensors are read when they are asked for. Checks
/// and errors as in load_safetensors(). load() and load_rows() may run on several threads.
class SafeTensorsFile {
 public:
  explicit SafeTensorsFile(const std::string& path, const SafeTensorsLimits& limits = {});
  SafeTensorsFile(SafeTensorsFile&&) noexcept;
  SafeTensorsFile& operator=(SafeTensorsFile&&) noexcept;
  ~SafeTensorsFile();

  /// In the order of the file.
  std::vector<std::string> names() const;
  std::map<std::string, std::string> metadata() const;
  /// IoError if there is no tensor of this name.
  Tensor load(std::string_view name) const;
  Shape shape(std::string_view name) const;
  /// Rows [begin, end) of a tensor with one axis or more.
  Tensor load_rows(std::string_view name, int64_t begin, int64_t end) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The number of bytes that load_safetensors() would read: the size of the file, or of all its
/// shards. IoError if a file is missing.
int64_t safetensors_bytes(const std::string& path);

/// Writes a temporary file beside `path`, syncs and renames it, so that `path` always has the whole
/// old or the whole new content.
void save_safetensors(const std::string& path, const SafeTensors& content);

/// The same for any bytes (checkpoints, logs, reports).
void write_file_atomically(const std::string& path, std::string_view bytes);

}  // namespace tern
