// Fuzzes the tar reader, also with repaired checksums.
#include "tern/data/loading/tar.h"

#include <fmt/format.h>

#include "tern/tests/fuzz/fuzz.h"

namespace {

constexpr size_t kBlock = 512;

/// Writes the right checksum into every block. Otherwise few inputs would be read further.
void repair(std::string& bytes) {
  for (size_t at = 0; at + kBlock <= bytes.size(); at += kBlock) {
    bytes.replace(at + 148, 8, 8, ' ');
    unsigned sum = 0;
    for (size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(bytes[at + i]);
    bytes.replace(at + 148, 7, fmt::format("{:06o}", sum) + '\0');
  }
}

void read_all(const std::string& bytes) {
  using namespace tern;
  const fuzz::File file(bytes);
  fuzz::may_refuse_file([&] {
    datasets::TarReader tar(file.path(), {.max_bytes = 1 << 24});
    std::string buffer(1000, '\0');
    while (auto member = tar.next()) {
      fuzz::require(member->size >= 0 && member->size <= 1 << 24);
      if (member->size % 2 == 0) tar.read(buffer.data(), 1000);
      if (member->size % 3 == 0) tar.read_exactly(buffer.data(), 100);
    }
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string text(tern::fuzz::text_of(bytes, size));
  read_all(text);
  repair(text);
  read_all(text + std::string(2 * kBlock, '\0'));
  return 0;
}
