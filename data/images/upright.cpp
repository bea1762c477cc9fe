// Reads the orientation that cameras write into a file: tag 0x0112 in the first directory of a TIFF
// header (https://www.cipa.jp/std/documents/e/DC-008-2012_E.pdf). Turns pictures upright by it.
#include <algorithm>

#include "tern/data/images/detail/decode.h"

namespace tern::datasets {
namespace {

constexpr uint16_t kOrientation = 0x0112, kShort = 3, kLong = 4;
constexpr size_t kHeader = 8, kEntry = 12;

// Reads numbers of a TIFF in either byte order.
struct Tiff {
  std::span<const uint8_t> bytes;
  bool big_endian = false;

  uint32_t number(size_t at, size_t count) const {
    uint32_t value = 0;
    for (size_t i = 0; i < count; ++i)
      value = value << 8 | bytes[at + (big_endian ? i : count - 1 - i)];
    return value;
  }
  uint16_t two(size_t at) const { return static_cast<uint16_t>(number(at, 2)); }
};

}  // namespace

int detail::exif_orientation(std::span<const uint8_t> exif) {
  constexpr uint8_t kName[] = {'E', 'x', 'i', 'f', 0, 0};
  if (exif.size() > sizeof kName && std::equal(std::begin(kName), std::end(kName), exif.begin()))
    exif = exif.subspan(sizeof kName);
  if (exif.size() < kHeader || exif[0] != exif[1] || (exif[0] != 'I' && exif[0] != 'M')) return 1;
  const Tiff tiff{exif, exif[0] == 'M'};
  const size_t first = tiff.number(4, 4);
  if (tiff.two(2) != 42 || first > exif.size() - 2) return 1;
  const size_t count = tiff.two(first);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = first + 2 + i * kEntry;
    if (at + kEntry > exif.size()) return 1;
    if (tiff.two(at) != kOrientation) continue;
    const uint16_t type = tiff.two(at + 2);
    if ((type != kShort && type != kLong) || tiff.number(at + 4, 4) != 1) return 1;
    const uint32_t value = type == kShort ? tiff.two(at + 8) : tiff.number(at + 8, 4);
    return value >= 1 && value <= 8 ? static_cast<int>(value) : 1;
  }
  return 1;
}

Picture detail::turned(Picture x, int orientation) {
  if (orientation == 1) return x;
  const int o = orientation;
  const bool swapped = o >= 5, down = o == 3 || o == 4 || o == 6 || o == 7;
  const bool across = o == 2 || o == 3 || o == 7 || o == 8;
  Picture y{swapped ? x.width : x.height, swapped ? x.height : x.width, {}};
  y.rgb.resize(x.rgb.size());
  for (int64_t r = 0; r < y.height; ++r)
    for (int64_t c = 0; c < y.width; ++c) {
      int64_t row = swapped ? c : r, col = swapped ? r : c;
      if (down) row = x.height - 1 - row;
      if (across) col = x.width - 1 - col;
      std::copy_n(x.row(row) + 3 * col, 3, y.row(r) + 3 * c);
    }
  return y;
}

}  // namespace tern::datasets
