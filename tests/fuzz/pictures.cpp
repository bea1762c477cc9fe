// Fuzzes the decoder of PNG and JPEG pictures. An accepted picture survives PNG encoding.
#include <zlib.h>

#include "tern/data/images/picture.h"
#include "tern/tests/fuzz/fuzz.h"

namespace {

uint32_t big_endian(const std::string& bytes, size_t at) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
  return value;
}

/// Writes the right checksum after every chunk of a PNG. Otherwise few inputs would be read
/// further.
void repair(std::string& bytes) {
  constexpr size_t kSignature = 8, kAround = 12;  // length, name and checksum
  for (size_t at = kSignature; bytes.size() - std::min(at, bytes.size()) >= kAround;) {
    const size_t length = big_endian(bytes, at);
    if (length > bytes.size() - at - kAround) return;
    const auto* chunk = reinterpret_cast<const Bytef*>(bytes.data() + at + 4);
    const auto crc = static_cast<uint32_t>(crc32_z(0, chunk, length + 4));
    for (size_t i = 0; i < 4; ++i)
      bytes[at + 8 + length + i] = static_cast<char>(crc >> (24 - 8 * i));
    at += kAround + length;
  }
}

// An accepted picture has its pixels, and encoding it as PNG preserves them.
void decode(std::string_view text) {
  using namespace tern;
  const auto bytes_of = [](std::string_view s) {
    return std::span(reinterpret_cast<const uint8_t*>(s.data()), s.size());
  };
  const datasets::DecodeOptions options{.max_pixels = 1 << 14};
  fuzz::may_refuse_file([&] {
    const datasets::Picture p = datasets::decode_picture(bytes_of(text), "x", options);
    fuzz::require(p.height > 0 && p.width > 0 && p.height * p.width <= options.max_pixels);
    fuzz::require(std::ssize(p.rgb) == 3 * p.height * p.width);
    const std::string png = datasets::encode_png(p);
    fuzz::require(datasets::decode_picture(bytes_of(png), "y").rgb == p.rgb);
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::string text(tern::fuzz::text_of(bytes, size));
  decode(text);
  repair(text);
  decode(text);
  return 0;
}
