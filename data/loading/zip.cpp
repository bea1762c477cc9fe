// Reads the directory and the members of a zip archive (also Zip64), and writes stored members.
#include "tern/data/loading/detail/zip.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tern/core/base/error.h"
#include "tern/data/loading/detail/printable.h"

namespace tern::datasets::detail {
namespace {

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50,
                   kEnd64 = 0x06064b50, kLocator64 = 0x07064b50;
constexpr int64_t kLocalSize = 30, kCentralSize = 46, kEndSize = 22, kEnd64Size = 56,
                  kLocator64Size = 20;
constexpr uint32_t kInExtra = 0xffffffff;  // the Zip64 extra field has the number
constexpr int64_t kZipBuffer = 64 * 1024;
constexpr int64_t kDeflateRatio = 1032;

// The bytes of a record; get() reads a little-endian number.
struct Record {
  std::vector<unsigned char> bytes;

  Record(const RandomFile& file, int64_t at, int64_t size) : bytes(static_cast<size_t>(size)) {
    file.read(at, bytes.data(), size);
  }
  template <class T>
  T get(int64_t at) const {
    T value;
    std::memcpy(&value, bytes.data() + at, sizeof value);
    return value;
  }
};

struct Directory {
  int64_t at, size, count;
};

// The end record is in the last 64 KiB, followed only by a comment.
int64_t find_end(const RandomFile& file) {
  const int64_t tail = std::min<int64_t>(file.size(), kEndSize + 0xffff);
  if (tail < kEndSize) file.fail(0, "is not a zip archive: too short for its end record");
  const Record bytes(file, file.size() - tail, tail);
  for (int64_t i = tail - kEndSize; i >= 0; --i)
    if (bytes.get<uint32_t>(i) == kEnd) return file.size() - tail + i;
  file.fail(file.size(), "is not a zip archive, or truncated: its end record is missing");
}

Directory find_directory(const RandomFile& file) {
  const int64_t end = find_end(file);
  const Record r(file, end, kEndSize);
  Directory d{r.get<uint32_t>(16), r.get<uint32_t>(12), r.get<uint16_t>(10)};
  if (d.at == kInExtra || d.size == kInExtra || d.count == 0xffff) {
    if (end < kLocator64Size) file.fail(end, "the Zip64 end record is missing");
    const Record locator(file, end - kLocator64Size, kLocator64Size);
    const auto at = locator.get<int64_t>(8);
    if (locator.get<uint32_t>(0) != kLocator64 || at < 0 || at > end - kEnd64Size)
      file.fail(end - kLocator64Size, "the Zip64 end record is missing");
    const Record r64(file, at, kEnd64Size);
    if (r64.get<uint32_t>(0) != kEnd64) file.fail(at, "the Zip64 end record is damaged");
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
void read_extra(const RandomFile& file, const Record& directory, int64_t at, int64_t end,
                ZipEntry& e) {
  while (end - at >= 4) {
    const auto id = directory.get<uint16_t>(at);
    const int64_t next = at + 4 + directory.get<uint16_t>(at + 2);
    if (next > end) break;
    at += 4;
    for (int64_t* number : {&e.size, &e.packed, &e.header})
      if (id == 1 && *number == kInExtra && next - at >= 8) {
        *number = directory.get<int64_t>(at);
        at += 8;
      }
    at = next;
  }
  if (e.size < 0 || e.packed < 0 || e.header < 0)
    file.fail(e.header, "a size or an offset is negative");
}

void check_entry(const RandomFile& file, const ZipEntry& e, int64_t directory) {
  if (e.header > directory - kLocalSize || e.packed > directory - e.header - kLocalSize)
    file.fail(directory, fmt::format("the bytes of \"{}\" are not inside the file", e.name));
  if (e.deflated ? e.size / kDeflateRatio > e.packed + 1 : e.size != e.packed)
    file.fail(e.header, fmt::format("\"{}\" claims that {} bytes are packed into {}", e.name,
                                    e.size, e.packed));
}

std::string put(std::initializer_list<std::pair<uint64_t, int>> numbers) {
  std::string out;
  for (const auto& [value, bytes] : numbers)
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

}  // namespace

std::vector<ZipEntry> read_zip_directory(const RandomFile& file) {
  const Directory d = find_directory(file);
  const Record r(file, d.at, d.size);
  std::vector<ZipEntry> entries;
  int64_t at = 0, packed = 0;
  for (int64_t i = 0; i < d.count; ++i) {
    if (d.size - at < kCentralSize || r.get<uint32_t>(at) != kCentral)
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
    check_entry(file, e, d.at);
    packed += e.packed;
    if (packed > file.size()) file.fail(d.at + at, "members of the archive overlap");
    entries.push_back(std::move(e));
    at = next;
  }
  return entries;
}

ZipMember::ZipMember(const RandomFile& file, const ZipEntry& entry)
    : file_(file), entry_(entry), buffer_(kZipBuffer) {
  const Record r(file, entry.header, kLocalSize);
  at_ = entry.header + kLocalSize + r.get<uint16_t>(26) + r.get<uint16_t>(28);
  end_ = at_ + entry.packed;
  if (r.get<uint32_t>(0) != kLocal || end_ > file.size()) fail("its local header is damaged");
  if (entry.deflated)
    check_io(inflateInit2(&z_, -15) == Z_OK, "{}: zlib has no memory", file.path());
}

ZipMember::~ZipMember() {
  if (entry_.deflated) inflateEnd(&z_);
}

void ZipMember::fail(const std::string& what) const {
  file_.fail(at_, fmt::format("\"{}\": {}", entry_.name, what));
}

int64_t ZipMember::refill() {
  const int64_t count = std::min(kZipBuffer, end_ - at_);
  file_.read(at_, buffer_.data(), count);
  at_ += count;
  return count;
}

void ZipMember::unpack(unsigned char* to, int64_t count) {
  while (count > 0) {
    z_.next_out = to;
    z_.avail_out = static_cast<unsigned>(std::min<int64_t>(count, 1 << 30));
    const unsigned asked = z_.avail_out;
    if (z_.avail_in == 0) {
      z_.avail_in = static_cast<unsigned>(refill());
      z_.next_in = buffer_.data();
    }
    const bool dry = z_.avail_in == 0;
    const int status = inflate(&z_, Z_NO_FLUSH);
    const int64_t got = asked - z_.avail_out;
    if ((status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR) ||
        (got == 0 && (dry || status == Z_STREAM_END)))
      fail(fmt::format("the packed bytes are damaged or end early: {}",
                       z_.msg ? z_.msg : "too few"));
    to += got;
    count -= got;
  }
}

void ZipMember::read_exactly(void* to, int64_t count) {
  auto* bytes = static_cast<unsigned char*>(to);
  if (count > entry_.size - done_)
    fail(fmt::format("ends {} bytes too early", count - (entry_.size - done_)));
  if (entry_.deflated) {
    unpack(bytes, count);
  } else {
    file_.read(at_, bytes, count);
    at_ += count;
  }
  for (int64_t i = 0; i < count; i += 1 << 30)
    crc_ = static_cast<uint32_t>(
        crc32(crc_, bytes + i, static_cast<uInt>(std::min<int64_t>(count - i, 1 << 30))));
  done_ += count;
  if (done_ == entry_.size && crc_ != entry_.crc) fail("its checksum is wrong");
}

// Writes all numbers to Zip64 extra fields, so that small and large archives have the same form.
void ZipWriter::begin(const std::string& name, int64_t size, uint32_t crc) {
  const auto bytes = static_cast<uint64_t>(size);
  entries_.push_back({name, size, size, at_, crc, false});
  const std::string header = put({{kLocal, 4},
                                  {45, 2},
                                  {0x800, 2},
                                  {0, 2},
                                  {0, 2},
                                  {0x21, 2},
                                  {crc, 4},
                                  {kInExtra, 4},
                                  {kInExtra, 4},
                                  {name.size(), 2},
                                  {20, 2}}) +
                             name + put({{1, 2}, {16, 2}, {bytes, 8}, {bytes, 8}});
  write(header.data(), std::ssize(header));
}

void ZipWriter::write(const void* bytes, int64_t count) {
  file_.write(bytes, count);
  at_ += count;
}

void ZipWriter::commit() {
  const int64_t start = at_;
  for (const ZipEntry& e : entries_) {
    const auto size = static_cast<uint64_t>(e.size);
    const std::string record =
        put({{kCentral, 4},
             {45, 2},
             {45, 2},
             {0x800, 2},
             {0, 2},
             {0, 2},
             {0x21, 2},
             {e.crc, 4},
             {kInExtra, 4},
             {kInExtra, 4},
             {e.name.size(), 2},
             {28, 2},
             {0, 2},
             {0, 2},
             {0, 2},
             {0, 4},
             {kInExtra, 4}}) +
        e.name + put({{1, 2}, {24, 2}, {size, 8}, {size, 8}, {static_cast<uint64_t>(e.header), 8}});
    write(record.data(), std::ssize(record));
  }
  const auto count = static_cast<uint64_t>(entries_.size()), end = static_cast<uint64_t>(at_);
  const auto first = static_cast<uint64_t>(start);
  const std::string tail =
      put({{kEnd64, 4}, {44, 8},       {45, 2},          {45, 2},    {0, 4},          {0, 4},
           {count, 8},  {count, 8},    {end - first, 8}, {first, 8}, {kLocator64, 4}, {0, 4},
           {end, 8},    {1, 4},        {kEnd, 4},        {0, 2},     {0, 2},          {0xffff, 2},
           {0xffff, 2}, {kInExtra, 4}, {kInExtra, 4},    {0, 2}});
  write(tail.data(), std::ssize(tail));
  file_.commit();
}

}  // namespace tern::datasets::detail
