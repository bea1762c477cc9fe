// Reads the end records, the directory and the local headers of a zip archive.
#include "tern/core/io/zip_directory.h"

#include <algorithm>
#include <cstring>

#include "tern/core/base/error.h"
#include "tern/core/base/printable.h"

namespace tern {
namespace {

constexpr int64_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56,
                  kLocator64Size = 20;
constexpr int64_t kDeflateRatio = 1032;

// The bytes of a record; get() reads a little-endian number.
struct ZipRecord {
  std::vector<unsigned char> bytes;

  ZipRecord(const RandomFile& file, int64_t at, int64_t size) : bytes(static_cast<size_t>(size)) {
    file.read(at, bytes.data(), size);
  }
  template <class T>
  T get(int64_t at) const {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  }
};

struct ZipPlace {
  int64_t at, size, count;
};

// The end record is in the last 64 KiB, followed only by a comment.
int64_t find_end(const RandomFile& file) {
  const int64_t tail = std::min<int64_t>(file.size(), kEndSize + 0xffff);
  if (tail < kEndSize) file.fail(0, "is not a zip archive: too short for its end record");
  const ZipRecord bytes(file, file.size() - tail, tail);
  for (int64_t i = tail - kEndSize; i >= 0; --i)
    if (bytes.get<uint32_t>(i) == ZipMagic::kEnd) return file.size() - tail + i;
  file.fail(file.size(), "is not a zip archive, or truncated: its end record is missing");
}

ZipPlace find_directory(const RandomFile& file) {
  const int64_t end = find_end(file);
  const ZipRecord r(file, end, kEndSize);
  ZipPlace d{r.get<uint32_t>(16), r.get<uint32_t>(12), r.get<uint16_t>(10)};
  if (d.at == ZipMagic::kInExtra || d.size == ZipMagic::kInExtra || d.count == 0xffff) {
    if (end < kLocator64Size) file.fail(end, "the Zip64 end record is missing");
    const ZipRecord locator(file, end - kLocator64Size, kLocator64Size);
    const auto at = locator.get<int64_t>(8);
    if (locator.get<uint32_t>(0) != ZipMagic::kLocator64 || at < 0 || at > end - kEnd64Size)
      file.fail(end - kLocator64Size, "the Zip64 end record is missing");
    const ZipRecord r64(file, at, kEnd64Size);
    if (r64.get<uint32_t>(0) != ZipMagic::kEnd64) file.fail(at, "the Zip64 end record is damaged");
    d = {r64.get<int64_t>(48), r64.get<int64_t>(40), r64.get<int64_t>(32)};
  }
  if (d.at < 0 || d.size < 0 || d.at > end || d.size > end - d.at || d.count < 0 ||
      d.count > d.size / kCentralSize)
    file.fail(end,
              fmt::format("the directory of {} members in {} bytes at {} does not fit in the file",
                          d.count, d.size, d.at));
  return d;
}

// The Zip64 extra field has the numbers that did not fit, in this order.
void read_extra(const RandomFile& file, const ZipRecord& directory, int64_t at, int64_t end,
                ZipEntry& e) {
  while (end - at >= 4) {
    const auto id = directory.get<uint16_t>(at);
    const int64_t next = at + 4 + directory.get<uint16_t>(at + 2);
    if (next > end) break;
    at += 4;
    for (int64_t* number : {&e.size, &e.packed, &e.header})
      if (id == 1 && *number == ZipMagic::kInExtra && next - at >= 8) {
        *number = directory.get<int64_t>(at);
        at += 8;
      }
    at = next;
  }
  if (e.size < 0 || e.packed < 0 || e.header < 0)
    file.fail(e.header, "a size or an offset is negative");
}

void check_zip_entry(const RandomFile& file, const ZipEntry& e, int64_t directory) {
  if (e.header > directory - kLocalSize || e.packed > directory - e.header - kLocalSize)
    file.fail(directory, fmt::format("the bytes of \"{}\" are not inside the file", e.name));
  if (e.deflated ? e.size / kDeflateRatio > e.packed + 1 : e.size != e.packed)
    file.fail(e.header, fmt::format("\"{}\" claims that {} bytes are packed into {}", e.name,
                                    e.size, e.packed));
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const RandomFile& file) {
  const ZipPlace d = find_directory(file);
  const ZipRecord r(file, d.at, d.size);
  std::vector<ZipEntry> entries;
  int64_t at = 0, packed = 0;
  for (int64_t i = 0; i < d.count; ++i) {
    if (d.size - at < kCentralSize || r.get<uint32_t>(at) != ZipMagic::kCentral)
      file.fail(d.at + at, "the zip directory is damaged");
    const int64_t name = r.get<uint16_t>(at + 28), extra = r.get<uint16_t>(at + 30);
    const int64_t next = at + kCentralSize + name + extra + r.get<uint16_t>(at + 32);
    if (next > d.size) file.fail(d.at + at, "the zip directory is damaged");
    ZipEntry e;
    const auto begin = r.bytes.begin() + at + kCentralSize;
    e.name = printable(std::string(begin, begin + name));
    e.crc = r.get<uint32_t>(at + 16);
    e.packed = r.get<uint32_t>(at + 20);
    e.size = r.get<uint32_t>(at + 24);
    e.header = r.get<uint32_t>(at + 42);
    read_extra(file, r, at + kCentralSize + name, at + kCentralSize + name + extra, e);
    const auto method = r.get<uint16_t>(at + 10);
    if (r.get<uint16_t>(at + 8) & 1)
      file.fail(d.at + at, fmt::format("\"{}\" is encrypted", e.name));
    if (method != 0 && method != 8)
      file.fail(d.at + at, fmt::format("\"{}\" is packed by method {}; stored and deflated members "
                                       "can be read",
                                       e.name, method));
    e.deflated = method == 8;
    check_zip_entry(file, e, d.at);
    packed += e.packed;
    if (packed > file.size()) file.fail(d.at + at, "members of the archive overlap");
    entries.push_back(std::move(e));
    at = next;
  }
  return entries;
}

int64_t zip_data_position(const RandomFile& file, const ZipEntry& entry) {
  const ZipRecord r(file, entry.header, kLocalSize);
  const int64_t at = entry.header + kLocalSize + r.get<uint16_t>(26) + r.get<uint16_t>(28);
  if (r.get<uint32_t>(0) != ZipMagic::kLocal || entry.packed > file.size() - at)
    file.fail(entry.header, fmt::format("\"{}\": its local header is damaged", entry.name));
  return at;
}

}  // namespace tern
