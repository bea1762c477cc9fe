// Fuzzes the reader of token files (TokenStream), also with repaired checksums.
#include "tern/data/text/stream/token_stream.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>

#include "tern/tests/fuzz/fuzz.h"

namespace {

using namespace tern;

/// Returns the bytes with right checksums of the pages and the end. Otherwise few inputs would be
/// read further.
std::string repaired(std::string bytes) {
  constexpr size_t kPage = 4096, kEnd = 32;
  if (bytes.size() < kEnd) return bytes;
  bytes.replace(bytes.size() - kEnd, 8, "ternids1");
  uint32_t notes = 0;
  std::memcpy(&notes, bytes.data() + bytes.size() - 12, 4);
  const size_t pages = (bytes.size() - kEnd - std::min<size_t>(notes, bytes.size() - kEnd)) / kPage;
  auto crc_of = [&](uLong crc, size_t from, size_t count) {
    return crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()) + from, count);
  };
  auto put = [&](size_t at, uLong crc) {
    const auto sum = static_cast<uint32_t>(crc);
    std::memcpy(bytes.data() + at, &sum, 4);
  };
  for (size_t i = 0; i < pages; ++i) {
    const auto number = static_cast<int64_t>(i);
    put(i * kPage + kPage - 4,
        crc_of(crc32_z(0, reinterpret_cast<const Bytef*>(&number), 8), i * kPage, kPage - 4));
  }
  const size_t text = std::min<size_t>(notes, bytes.size() - kEnd);
  put(bytes.size() - 8,
      crc_of(crc_of(0, bytes.size() - kEnd - text, text), bytes.size() - kEnd, 24));
  bytes.replace(bytes.size() - 4, 4, 4, '\0');
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(fuzz::text_of(bytes, size));
  for (const std::string& content : {text, repaired(text)}) {
    const fuzz::File file(content);
    fuzz::may_refuse_file([&] {
      const datasets::TokenStream stream = datasets::TokenStream::open(file.path());
      fuzz::require(2 * stream.size() <= std::ssize(content));
      for (int64_t id : stream.read(0, stream.size()))
        fuzz::require(id >= 0 && id < stream.vocabulary());
      if (stream.size() > 0) stream.part(stream.size() / 2, stream.size()).read(0, 1);
    });
  }
  return 0;
}
