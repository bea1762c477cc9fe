// Types of elements in files of weights, and reading them into tensors. Inside of tern only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "tern/core/io/random_file.h"
#include "tern/core/tensor/tensor.h"

namespace tern::detail {

/// A type in a file: its name, the type of the tensor, and the conversion of `n` elements (null:
/// the same bytes). Quantised types store blocks of `elements` in `bytes`; n is a multiple of that.
struct ElementType {
  std::string_view name;
  int64_t bytes;
  DType dtype;
  void (*convert)(const std::byte* from, void* to, int64_t n) = nullptr;
  int64_t elements = 1;
};

/// The type that safetensors and GGUF call so ("BF16"); null if there is none.
const ElementType* find_element_type(std::string_view name);
/// The type with the same bytes as `dtype`.
const ElementType* element_type_of(DType dtype);

/// Reads a tensor whose elements begin at byte `at`. REQUIRES: the file's size was compared with
/// the shape, and the number of elements is a multiple of type.elements.
Tensor read_tensor(const RandomFile& file, int64_t at, const Shape& shape, const ElementType& type);

/// The same for elements in order: read(to, count) copies the next `count` bytes. `swapped`: the
/// elements are big-endian.
Tensor read_tensor(const std::function<void(void*, int64_t)>& read, bool swapped,
                   const Shape& shape, const ElementType& type);

}  // namespace tern::detail
