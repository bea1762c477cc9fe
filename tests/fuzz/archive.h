// Makes tar archives from a fuzz target's input, for readers that need certain files in them.
#pragma once

#include <algorithm>
#include <array>
#include <string>

#include "tern/tests/fuzz/fuzz.h"
#include "tern/tests/support/data_files.h"

namespace tern::fuzz {

/// Each file is described by bytes of the input: which name, how many records of `record` bytes,
/// which damage, which content.
inline std::string archive_of(const uint8_t* bytes, size_t size,
                              const std::array<std::string, 8>& names, size_t record) {
  std::string archive;
  for (size_t at = 0; at + 2 < size && archive.size() < 1 << 20;) {
    const uint8_t which = bytes[at], records = bytes[at + 1], fill = bytes[at + 2];
    at += 3;
    std::string content;
    if (which & 8) {
      const size_t n = std::min<size_t>(records, size - at);
      content = text_of(bytes + at, n);
      at += n;
    } else {
      const size_t times = which & 128 ? 25 : 1;  // exceeds the readers' buffers
      content.assign(records % 4 * times * record + (which & 16 ? fill : 0),
                     static_cast<char>(fill));
    }
    const std::string name = (which & 32 ? "folder/" : "") + names[which % 8];
    const size_t claimed = content.size() + (which & 64 ? fill : 0);
    archive += test::tar_header(name, claimed) + test::padded(content);
  }
  if (size % 5 != 0) archive += test::kTarEnd;
  return archive;
}

}  // namespace tern::fuzz
