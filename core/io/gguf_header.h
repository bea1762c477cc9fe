// The header of a GGUF file: metadata and the list of tensors. Inside of core only.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/core/io/gguf.h"
#include "tern/core/io/random_file.h"

namespace tern::detail {

/// The types of values, as the file numbers them.
enum class GgufKind : uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  text,
  list,
  u64,
  i64,
  f64
};

/// A value of the metadata as it is in the file, with checked lengths.
struct GgufValue {
  GgufKind kind;  ///< of the elements, if it is a list
  bool list;
  int64_t count;      ///< of elements; 1 if it is no list
  const char* bytes;  ///< in GgufHeader::bytes; a text begins with its length in 8 bytes
};

struct GgufHeader {
  std::unique_ptr<char[]> bytes;  ///< to which the rest refers
  std::vector<std::string_view> keys;
  std::unordered_map<std::string_view, GgufValue> values;
  std::vector<GgufTensor> tensors;
  std::unordered_map<std::string_view, size_t> places;  ///< of tensors, by name
};

GgufHeader read_gguf_header(const RandomFile& file, const GgufLimits& limits);

/// Calls use(x) with a value of the C++ type of a number's kind. REQUIRES: not a text or list.
template <class Use>
auto with_gguf_number(GgufKind kind, const char* bytes, Use use) {
  auto as = [&]<class T>(T x) {
    std::memcpy(&x, bytes, sizeof x);
    return use(x);
  };
  switch (kind) {
    case GgufKind::boolean:
    case GgufKind::u8:
      return as(uint8_t{});
    case GgufKind::i8:
      return as(int8_t{});
    case GgufKind::u16:
      return as(uint16_t{});
    case GgufKind::i16:
      return as(int16_t{});
    case GgufKind::u32:
      return as(uint32_t{});
    case GgufKind::i32:
      return as(int32_t{});
    case GgufKind::f32:
      return as(float{});
    case GgufKind::u64:
      return as(uint64_t{});
    case GgufKind::i64:
      return as(int64_t{});
    case GgufKind::f64:
      return as(double{});
    case GgufKind::text:
    case GgufKind::list:
      break;
  }
  fail_unhandled("GgufKind", kind);
}

}  // namespace tern::detail
