// A reader of event files that shares no code with the writer: it computes CRCs bit by bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "tern/tests/support/data_files.h"
#include "tern/tests/support/protobuf_reader.h"

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
