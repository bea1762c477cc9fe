// Reads the members of a zip archive, and writes stored members.
#include "tern/data/loading/detail/zip.h"

#include <algorithm>

#include "tern/core/base/error.h"

namespace tern::datasets::detail {
namespace {

constexpr int64_t kZipBuffer = 64 * 1024;

std::string put(std::initializer_list<std::pair<uint64_t, int>> numbers) {
  std::string out;
  for (const auto& [value, bytes] : numbers)
    for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}

}  // namespace

ZipMember::ZipMember(const RandomFile& file, const ZipEntry& entry)
    : file_(file), entry_(entry), buffer_(kZipBuffer) {
  at_ = zip_data_position(file, entry);
  end_ = at_ + entry.packed;
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
  if (count > 0) crc_ = static_cast<uint32_t>(crc32_z(crc_, bytes, static_cast<size_t>(count)));
  done_ += count;
  if (done_ == entry_.size && crc_ != entry_.crc) fail("its checksum is wrong");
}

// Writes all numbers to Zip64 extra fields, so that small and large archives have the same form.
void ZipWriter::begin(const std::string& name, int64_t size, uint32_t crc) {
  const auto bytes = static_cast<uint64_t>(size);
  entries_.push_back({name, size, size, at_, crc, false});
  // clang-format off
  const std::string header = put({{ZipMagic::kLocal, 4}, {45, 2}, {0x800, 2}, {0, 2}, {0, 2},
                                  {0x21, 2}, {crc, 4}, {ZipMagic::kInExtra, 4},
                                  {ZipMagic::kInExtra, 4}, {name.size(), 2}, {20, 2}}) +
                             name + put({{1, 2}, {16, 2}, {bytes, 8}, {bytes, 8}});
  // clang-format on
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
    // clang-format off
    const std::string record =
        put({{ZipMagic::kCentral, 4}, {45, 2}, {45, 2}, {0x800, 2}, {0, 2}, {0, 2}, {0x21, 2},
             {e.crc, 4}, {ZipMagic::kInExtra, 4}, {ZipMagic::kInExtra, 4}, {e.name.size(), 2},
             {28, 2}, {0, 2}, {0, 2}, {0, 2}, {0, 4}, {ZipMagic::kInExtra, 4}}) +
        e.name + put({{1, 2}, {24, 2}, {size, 8}, {size, 8}, {static_cast<uint64_t>(e.header), 8}});
    // clang-format on
    write(record.data(), std::ssize(record));
  }
  const auto count = static_cast<uint64_t>(entries_.size()), end = static_cast<uint64_t>(at_);
  const auto first = static_cast<uint64_t>(start);
  // clang-format off
  const std::string tail = put({{ZipMagic::kEnd64, 4}, {44, 8}, {45, 2}, {45, 2}, {0, 4}, {0, 4},
                                {count, 8}, {count, 8}, {end - first, 8}, {first, 8},
                                {ZipMagic::kLocator64, 4}, {0, 4}, {end, 8}, {1, 4},
                                {ZipMagic::kEnd, 4}, {0, 2}, {0, 2}, {0xffff, 2}, {0xffff, 2},
                                {ZipMagic::kInExtra, 4}, {ZipMagic::kInExtra, 4}, {0, 2}});
  // clang-format on
  write(tail.data(), std::ssize(tail));
  file_.commit();
}

}  // namespace tern::datasets::detail
