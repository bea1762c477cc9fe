// A reader of event files that shares no code with the writer: it computes CRCs bit by bit and
// gives protocol buffers as fields by number.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tern/tests/support/data_files.h"

namespace tern::test {

inline uint32_t bitwise_crc32c(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t in = static_cast<uint32_t>(c) >> bit & 1;
      crc = (crc >> 1) ^ ((crc ^ in) & 1 ? 0x82F63B78U : 0U);
    }
  return ~crc;
}

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

/// The data of the whole records at the beginning of the bytes; checks their CRCs. Zeros end the
/// records: a loss of power may leave them, and TensorBoard stops there, too.
inline std::vector<std::string> read_records(std::string_view bytes) {
  auto u32 = [&](size_t at) {
    uint32_t v = 0;
    std::memcpy(&v, bytes.data() + at, 4);
    return v;
  };
  auto masked = [](std::string_view part) {
    const uint32_t crc = bitwise_crc32c(part);
    return (crc >> 15 | crc << 17) + 0xA282EAD8U;
  };
  std::vector<std::string> out;
  for (size_t at = 0; at + 12 <= bytes.size();) {
    uint64_t length = 0;
    std::memcpy(&length, bytes.data() + at, 8);
    if (bytes.find_first_not_of('\0', at) == bytes.npos) break;
    REQUIRE(u32(at + 8) == masked(bytes.substr(at, 8)));
    if (at + 16 + length > bytes.size()) break;
    out.emplace_back(bytes.substr(at + 12, length));
    REQUIRE(u32(at + 12 + length) == masked(out.back()));
    at += 16 + length;
  }
  return out;
}

/// An event with at most one value of a summary.
struct Event {
  int64_t step = 0;
  double wall_time = 0;
  std::string version, tag;
  bool session_start = false;
  Fields value;  ///< fields of Summary.Value

  float scalar() const { return value.find(2)->second.f32(); }
  Fields image() const { return parse_message(value.find(4)->second.bytes); }
  Fields histogram() const { return parse_message(value.find(5)->second.bytes); }
};

inline std::vector<Event> read_events(const std::string& path) {
  std::vector<Event> out;
  for (const std::string& record : read_records(read_file(path))) {
    const Fields fields = parse_message(record);
    Event e;
    e.wall_time = fields.find(1)->second.f64();
    if (fields.contains(2)) e.step = static_cast<int64_t>(fields.find(2)->second.integer);
    if (fields.contains(3)) e.version = fields.find(3)->second.bytes;
    if (fields.contains(7))
      e.session_start = parse_message(fields.find(7)->second.bytes).find(1)->second.integer == 1;
    if (fields.contains(5)) {
      e.value = parse_message(parse_message(fields.find(5)->second.bytes).find(1)->second.bytes);
      e.tag = e.value.find(1)->second.bytes;
    }
    out.push_back(std::move(e));
  }
  return out;
}

/// The event files of a folder in the order of their names, which is also that of time.
inline std::vector<std::string> event_files(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().filename().string().find("tfevents") != std::string::npos)
      out.push_back(entry.path().string());
  std::sort(out.begin(), out.end());
  return out;
}

/// The events of a folder that TensorBoard shows: a restart hides earlier events from its step on.
inline std::vector<Event> shown_events(const std::string& folder) {
  std::vector<Event> shown;
  for (const std::string& file : event_files(folder))
    for (Event& e : read_events(file)) {
      if (e.session_start)
        std::erase_if(shown, [&](const Event& old) { return old.step >= e.step; });
      if (!e.tag.empty()) shown.push_back(std::move(e));
    }
  return shown;
}

}  // namespace tern::test
