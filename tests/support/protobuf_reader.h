// A reader of protocol buffers that shares no code with the writer: fields by number.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace tern::test {

/// A field of a message: its number, and its value by its wire type.
struct Field {
  uint64_t number = 0;
  std::string bytes;  ///< value of doubles, floats and length-delimited fields
  uint64_t integer = 0;

  double f64() const {
    double v = 0;
    REQUIRE(bytes.size() == sizeof v);
    std::memcpy(&v, bytes.data(), sizeof v);
    return v;
  }
  float f32() const {
    float v = 0;
    REQUIRE(bytes.size() == sizeof v);
    std::memcpy(&v, bytes.data(), sizeof v);
    return v;
  }
  std::vector<double> packed() const {
    std::vector<double> v(bytes.size() / 8);
    std::memcpy(v.data(), bytes.data(), v.size() * 8);
    return v;
  }
};

inline uint64_t read_varint(std::string_view bytes, size_t& at) {
  uint64_t v = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE(at < bytes.size());
    const auto b = static_cast<uint8_t>(bytes[at++]);
    v |= static_cast<uint64_t>(b & 0x7F) << shift;
    if (b < 0x80) return v;
  }
}

using Fields = std::multimap<uint64_t, Field>;

inline Fields parse_message(std::string_view bytes) {
  Fields out;
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t tag = read_varint(bytes, at);
    Field f{tag >> 3, "", 0};
    size_t length = 0;
    switch (tag & 7) {
      case 0:
        f.integer = read_varint(bytes, at);
        break;
      case 1:
        length = 8;
        break;
      case 2:
        length = read_varint(bytes, at);
        break;
      case 5:
        length = 4;
        break;
      default:
        FAIL("wire type ", tag & 7);
    }
    REQUIRE(at + length <= bytes.size());
    f.bytes = bytes.substr(at, length);
    at += length;
    out.emplace(f.number, f);
  }
  return out;
}

}  // namespace tern::test
