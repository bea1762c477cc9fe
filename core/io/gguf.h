// Reading GGUF files, the format for quantised weights of llama.cpp.
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
//   const GgufFile file("model.gguf");
//   const int64_t blocks = file.integer("llama.block_count");
//   const double base = file.get("llama.rope.freq_base", 10000.0);
//   const Tensor embedding = file.load("token_embd.weight");  // f32
//
// Reads versions 2 and 3, little-endian, with tensors of F32, F16, BF16, F64, I8, I16, I32, I64,
// Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K and Q6_K; other types are refused by name.
// Files are not trusted: counts, lengths, offsets, shapes and types are checked before memory is
// allocated. Every error is an IoError that names the file, and the key or tensor at fault. No
// tensor ends behind the file, and together they have no more bytes than the file.
//
// Memory: the header (metadata and list of tensors) stays in memory as it is in the file, beside
// about 250 bytes per tensor. Tensors are read when they are asked for, in pieces, and not mapped:
// a mapped file that becomes shorter would end the program, and its pages would count as memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "tern/core/tensor/tensor.h"

namespace tern {

/// A list in the metadata has at most 2^20 elements, and the metadata at most 10,000 keys. The
/// largest published vocabularies need half of a list, and 16 MB of header.
struct GgufLimits {
  int64_t header = 24 << 20;  ///< bytes of metadata and list of tensors
  int64_t tensors = 100'000;
};

struct GgufTensor {
  std::string name;
  std::string_view type;  ///< "Q4_K"
  Shape shape;            ///< rows first, as in PyTorch; the file stores the sizes reversed
  int64_t offset;         ///< of the first byte in the file
  int64_t bytes;          ///< in the file
};

/// Metadata belongs to one thread, since the file remembers which keys were read: an unread key may
/// change the meaning of the weights. load() and load_rows() may run on several.
class GgufFile {
 public:
  explicit GgufFile(const std::string& path, const GgufLimits& limits = {});
  GgufFile(GgufFile&&) noexcept;
  GgufFile& operator=(GgufFile&&) noexcept;
  ~GgufFile();

  const std::string& path() const;

  /// All keys, in the order of the file.
  std::vector<std::string> keys() const;
  /// Whether there is this key. Counts it as read.
  bool has(std::string_view key) const;

  // The value of this key. Error if it is missing or has another type. An integer fits into 64
  // bits. A number may be an integer.
  std::string text(std::string_view key) const;
  int64_t integer(std::string_view key) const;
  double number(std::string_view key) const;
  bool boolean(std::string_view key) const;
  /// The texts live as long as the file object.
  std::vector<std::string_view> texts(std::string_view key) const;
  std::vector<int64_t> integers(std::string_view key) const;
  std::vector<double> numbers(std::string_view key) const;
  /// The value of this key, or `otherwise` if it is missing.
  template <class T>
  T get(std::string_view key, const T& otherwise) const {
    static_assert(std::is_same_v<T, bool> || std::is_same_v<T, int64_t> ||
                  std::is_same_v<T, double> || std::is_same_v<T, std::string>);
    if (!has(key)) return otherwise;
    if constexpr (std::is_same_v<T, bool>) return boolean(key);
    if constexpr (std::is_same_v<T, int64_t>) return integer(key);
    if constexpr (std::is_same_v<T, double>) return number(key);
    if constexpr (std::is_same_v<T, std::string>) return text(key);
  }
  std::string get(std::string_view key, const char* otherwise) const {
    return get<std::string>(key, otherwise);
  }
  /// The keys that nobody asked for.
  std::vector<std::string> unread() const;

  /// In the order of the file.
  const std::vector<GgufTensor>& tensors() const;
  /// The tensor with this name; null if there is none.
  const GgufTensor* find(std::string_view name) const;
  /// The tensor's elements as f32; F64 stays f64, and integers become i64. Error if there is none.
  Tensor load(std::string_view name) const;
  /// Rows [begin, end) of a tensor with two axes or more.
  Tensor load_rows(std::string_view name, int64_t begin, int64_t end) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tern
