// ByteReader on stdio and zlib: a growing read buffer, the chain of gzip members, and the limits on
// unpacked bytes.
#include "tern/data/loading/gzip.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "tern/core/base/error.h"

namespace tern::datasets {
namespace {

constexpr int64_t kFileBuffer = 256 * 1024, kFirstRead = 4096;
constexpr int64_t kFree = 16 << 20;  // this many bytes are allowed at any ratio
constexpr int kGzipOnly = 15 + 16;   // zlib: largest window, gzip header and checksum

struct CloseFile {
  void operator()(std::FILE* f) const { std::fclose(f); }
};

}  // namespace

struct ByteReader::Impl {
  std::string path;
  Options options;
  std::unique_ptr<std::FILE, CloseFile> file;
  int64_t file_size = 0;
  int64_t file_read = 0;  // bytes of the file read into the buffer
  std::vector<unsigned char> buffer;
  int64_t begin = 0, end = 0;  // unread bytes in the buffer
  int64_t ahead = kFirstRead;  // bytes to read next; grows while reads are sequential
  int64_t position = 0;
  bool gzip = false;
  bool in_member = false;  // inside a member; a gzip file is a chain of them
  z_stream z{};

  ~Impl() {
    if (gzip) inflateEnd(&z);
  }

  [[noreturn]] void fail(const std::string& what) const {
    if (!gzip) fail_io(fmt::format("{}: {} (at byte {})", path, what, position));
    fail_io(fmt::format("{}: {} (at byte {}; {} unpacked)", path, what, file_position(), position));
  }

  int64_t file_position() const { return file_read - (end - begin); }

  void open() {
    struct stat info {};
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // FIFOs must not block
    if (fd >= 0) file.reset(::fdopen(fd, "rb"));
    check_io(file && ::fstat(fileno(file.get()), &info) == 0, "{}: cannot be opened: {}", path,
             std::strerror(errno));
    check_io(S_ISREG(info.st_mode), "{}: is not a regular file", path);
    file_size = info.st_size;
    refill();
    if (end < 2 || buffer[0] != 0x1f || buffer[1] != 0x8b) return;
    check_io(inflateInit2(&z, kGzipOnly) == Z_OK, "{}: zlib has no memory", path);
    gzip = in_member = true;
  }

  // Refills an empty buffer; false at the end of the file.
  bool refill() {
    if (begin < end) return true;
    begin = 0;
    buffer.resize(static_cast<size_t>(ahead));
    end =
        static_cast<int64_t>(std::fread(buffer.data(), 1, static_cast<size_t>(ahead), file.get()));
    ahead = std::min(2 * ahead, kFileBuffer);
    file_read += end;
    if (end == 0 && std::ferror(file.get())) fail("cannot be read");
    return end > 0;
  }

  int64_t copy(unsigned char* to, int64_t n) {
    if (!refill()) return 0;
    n = std::min(n, end - begin);
    std::memcpy(to, buffer.data() + begin, static_cast<size_t>(n));
    begin += n;
    return n;
  }

  // Skips n bytes of a plain file by seeking. Returns false if the file is gzip, cannot seek that
  // far, or the buffer has the bytes.
  bool jump(int64_t n) {
    const int64_t beyond = n - (end - begin);
    if (gzip || beyond <= 0 || n > file_size - position) return false;
    if (::fseeko(file.get(), beyond, SEEK_CUR) != 0) return false;
    begin = end = 0;
    ahead = kFirstRead;
    file_read += beyond;
    position += n;
    check_position();
    return true;
  }

  void check_position() const {
    if (position > options.max_bytes)
      fail(fmt::format("holds more than the limit of {} bytes", options.max_bytes));
  }

  // Begins the next member; false at the end. Zeros may pad the file, as on tapes.
  bool next_member() {
    while (refill() && buffer[begin] == 0) ++begin;
    if (begin == end) return false;
    if (buffer[begin] != 0x1f) fail("something follows the end of the gzip stream");
    inflateReset(&z);
    return in_member = true;
  }

  // Unpacks up to n bytes; 0 only at the end of the stream.
  int64_t unpack(unsigned char* to, int64_t n) {
    constexpr int64_t kMost = 1 << 30;  // zlib counts in unsigned int
    z.next_out = to;
    z.avail_out = static_cast<unsigned>(std::min(n, kMost));
    unsigned const wanted = z.avail_out;
    while (z.avail_out == wanted && (in_member || next_member())) {
      if (!refill()) fail("the gzip stream is truncated");
      z.next_in = buffer.data() + begin;
      z.avail_in = static_cast<unsigned>(end - begin);
      int const status = inflate(&z, Z_NO_FLUSH);
      begin = end - z.avail_in;
      if (status == Z_STREAM_END) in_member = false;
      if (status == Z_MEM_ERROR) fail("zlib has no memory");
      if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
        fail(fmt::format("the gzip stream is damaged: {}", z.msg ? z.msg : "no header"));
    }
    return wanted - z.avail_out;
  }

  int64_t read(unsigned char* to, int64_t n) {
    int64_t done = 0;
    while (done < n) {
      int64_t const got = gzip ? unpack(to + done, n - done) : copy(to + done, n - done);
      if (got == 0) break;
      done += got;
      position += got;
      check_position();
      if (gzip && position > kFree && position / options.max_ratio > file_position())
        fail(
            fmt::format("unpacks to more than {} times its size; if that is right, unpack it first",
                        options.max_ratio));
    }
    return done;
  }
};

ByteReader::ByteReader(std::string path, Options options) : impl_(std::make_unique<Impl>()) {
  impl_->path = std::move(path);
  impl_->options = options;
  check(options.max_ratio >= 1, "ByteReader: max_ratio is {}; at least 1", options.max_ratio);
  impl_->open();
}
ByteReader::~ByteReader() = default;
ByteReader::ByteReader(ByteReader&&) noexcept = default;
ByteReader& ByteReader::operator=(ByteReader&&) noexcept = default;

int64_t ByteReader::read(void* to, int64_t n) {
  return impl_->read(static_cast<unsigned char*>(to), n);
}

void ByteReader::read_exactly(void* to, int64_t n) {
  int64_t const got = read(to, n);
  if (got < n) fail(fmt::format("ends {} bytes too early", n - got));
}

void ByteReader::skip(int64_t n) {
  if (impl_->jump(n)) return;
  std::array<unsigned char, 16 * 1024> sink;
  for (; n > 0; n -= std::ssize(sink)) read_exactly(sink.data(), std::min(n, std::ssize(sink)));
}

void ByteReader::drain() {
  std::array<unsigned char, 16 * 1024> sink;
  while (read(sink.data(), std::ssize(sink)) > 0) {
  }
}

int64_t ByteReader::position() const { return impl_->position; }

int64_t ByteReader::file_position() const { return impl_->file_position(); }

std::optional<int64_t> ByteReader::remaining() const {
  if (impl_->gzip) return std::nullopt;
  return impl_->file_size - impl_->position;
}

bool ByteReader::is_gzip() const { return impl_->gzip; }
const std::string& ByteReader::path() const { return impl_->path; }
void ByteReader::fail(const std::string& what) const { impl_->fail(what); }

}  // namespace tern::datasets
