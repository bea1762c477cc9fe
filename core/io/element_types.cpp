// Converts elements of files to those of tensors, piece by piece on all threads.
#include "tern/core/io/element_types.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "tern/core/base/ceil_div.h"
#include "tern/core/base/half.h"
#include "tern/core/base/threads.h"
#include "tern/core/tape/record.h"

namespace tern::detail {
namespace {

static_assert(std::endian::native == std::endian::little,
              "files of weights are little-endian, so tern supports only little-endian machines");

float bfloat_to_float(uint16_t b) { return std::bit_cast<float>(static_cast<uint32_t>(b) << 16); }

template <class From, class To, To (*kConvert)(From)>
void widen_elements(const std::byte* from, void* to, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
    static_cast<To*>(to)[i] = kConvert(value);
  }
}

template <class From>
int64_t as_integer(From value) {
  return value;
}
uint8_t as_boolean(uint8_t value) { return value != 0; }

constexpr ElementType kElementTypes[] = {
    {"F32", 4, DType::f32},
    {"F64", 8, DType::f64},
    {"I64", 8, DType::i64},
    {"U8", 1, DType::u8},
    {"F16", 2, DType::f32, widen_elements<uint16_t, float, half_to_float>},
    {"BF16", 2, DType::f32, widen_elements<uint16_t, float, bfloat_to_float>},
    {"BOOL", 1, DType::u8, widen_elements<uint8_t, uint8_t, as_boolean>},
    {"I8", 1, DType::i64, widen_elements<int8_t, int64_t, as_integer>},
    {"I16", 2, DType::i64, widen_elements<int16_t, int64_t, as_integer>},
    {"I32", 4, DType::i64, widen_elements<int32_t, int64_t, as_integer>},
    {"U16", 2, DType::i64, widen_elements<uint16_t, int64_t, as_integer>},
    {"U32", 4, DType::i64, widen_elements<uint32_t, int64_t, as_integer>},
};

}  // namespace

const ElementType* find_element_type(std::string_view name) {
  for (const ElementType& t : kElementTypes)
    if (t.name == name) return &t;
  return nullptr;
}

const ElementType* element_type_of(DType dtype) {
  for (const ElementType& t : kElementTypes)
    if (t.dtype == dtype && !t.convert) return &t;
  return nullptr;
}

Tensor read_tensor(const RandomFile& file, int64_t at, const Shape& shape,
                   const ElementType& type) {
  Fresh out(shape, type.dtype);
  auto* elements = static_cast<std::byte*>(out.ref()->storage->data());
  constexpr int64_t kPiece = 1 << 16;  // elements; a multiple of every block
  tern::parallel_blocks(ceil_div(out.numel(), kPiece), [&](int64_t piece) {
    const int64_t first = piece * kPiece, n = std::min(kPiece, out.numel() - first);
    const int64_t begin = at + first / type.elements * type.bytes;
    const int64_t bytes = n / type.elements * type.bytes;
    std::byte* to = elements + first * item_size(type.dtype);
    if (!type.convert) return file.read(begin, to, bytes);
    std::vector<std::byte> from(static_cast<size_t>(bytes));
    file.read(begin, from.data(), bytes);
    type.convert(from.data(), to, n);
  });
  return not_differentiable(out);
}

Tensor read_tensor(const std::function<void(void*, int64_t)>& read, bool swapped,
                   const Shape& shape, const ElementType& type) {
  Fresh out(shape, type.dtype);
  auto* to = static_cast<std::byte*>(out.ref()->storage->data());
  const int64_t bytes = out.numel() * type.bytes;
  if (!type.convert && !swapped) {
    read(to, bytes);
    return not_differentiable(out);
  }
  constexpr int64_t kPiece = 1 << 16;  // a multiple of the size of every element
  std::vector<std::byte> from(static_cast<size_t>(std::min(kPiece, bytes)));
  for (int64_t left = bytes; left > 0; left -= kPiece) {
    const int64_t n = std::min(kPiece, left) / type.bytes;
    read(from.data(), n * type.bytes);
    for (auto* at = from.data(); swapped && at < from.data() + n * type.bytes; at += type.bytes)
      std::reverse(at, at + type.bytes);
    if (type.convert)
      type.convert(from.data(), to, n);
    else
      std::memcpy(to, from.data(), static_cast<size_t>(n * type.bytes));
    to += n * item_size(type.dtype);
  }
  return not_differentiable(out);
}

}  // namespace tern::detail
