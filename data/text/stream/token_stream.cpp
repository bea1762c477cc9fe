// Files of token ids in pages with checksums: TokenPages reads one, TokenWriter writes one without
// a name, keep() names it.
#include "tern/data/text/stream/token_stream.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/base/system.h"
#include "tern/core/io/atomic_file.h"
#include "tern/core/io/random_file.h"

namespace tern::datasets {
namespace {

constexpr int64_t kPage = 4096, kInPage = kPage - 4, kEnd = 32;
constexpr int64_t kMostNotes = 64 << 20, kMostTokenIds = int64_t{1} << 32;
constexpr std::string_view kTokenMagic = "ternids1";

using TokenPage = std::array<unsigned char, kPage>;

int64_t width_of(int64_t vocabulary) { return vocabulary > 1 << 16 ? 4 : 2; }

// Checksum of a page's ids and of its number, so that a page in another's place is noticed.
uint32_t sum_of(int64_t number, const unsigned char* page) {
  const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(&number), sizeof number);
  return static_cast<uint32_t>(crc32_z(crc, page, kInPage));
}

// The last bytes of a file.
struct TokenEnd {
  char magic[8];
  uint64_t size;
  uint32_t vocabulary, notes, crc, zero;

  uint32_t sum(std::string_view text) const {
    const uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size());
    return static_cast<uint32_t>(
        crc32_z(crc, reinterpret_cast<const Bytef*>(this), offsetof(TokenEnd, crc)));
  }
};
static_assert(sizeof(TokenEnd) == kEnd);

int64_t pages_of(int64_t size, int64_t width) {
  const int64_t in_page = kInPage / width;
  return size / in_page + (size % in_page != 0);
}

}  // namespace

// An open file of ids.
class detail::TokenPages {
 public:
  explicit TokenPages(const std::string& path) : file_(path) { read_end(); }
  /// Takes over an open file.
  TokenPages(int fd, const std::string& place) : file_(fd, place) { read_end(); }

  int64_t size() const { return size_; }
  int64_t vocabulary() const { return vocabulary_; }
  const std::string& notes() const { return notes_; }
  const RandomFile& file() const { return file_; }

  void read(int64_t first, std::span<int64_t> to) const {
    const int64_t in_page = kInPage / width_;
    TokenPage page;
    while (!to.empty()) {
      const int64_t number = first / in_page, at = first % in_page;
      const auto count = static_cast<size_t>(std::min(in_page - at, std::ssize(to)));
      file_.read(number * kPage, page.data(), kPage);
      uint32_t sum = 0;
      std::memcpy(&sum, page.data() + kInPage, sizeof sum);
      if (sum != sum_of(number, page.data()))
        file_.fail(number * kPage, "the file is damaged: a checksum differs");
      if (width_ == 2)
        widen<uint16_t>(page.data() + at * 2, to.first(count));
      else
        widen<uint32_t>(page.data() + at * 4, to.first(count));
      for (int64_t id : to.first(count))
        if (id >= vocabulary_)
          file_.fail(number * kPage,
                     fmt::format("id {} is outside the vocabulary of {}", id, vocabulary_));
      first += static_cast<int64_t>(count);
      to = to.subspan(count);
    }
  }

 private:
  void read_end() {
    TokenEnd end{};
    if (file_.size() < kEnd) fail_format();
    file_.read(file_.size() - kEnd, &end, kEnd);
    if (std::string_view(end.magic, sizeof end.magic) != kTokenMagic) fail_format();
    const int64_t notes_at = file_.size() - kEnd - end.notes;
    vocabulary_ = end.vocabulary;
    width_ = width_of(vocabulary_);
    size_ = static_cast<int64_t>(std::min<uint64_t>(end.size, INT64_MAX));
    const int64_t pages = pages_of(size_, width_);
    if (end.notes > kMostNotes || pages > file_.size() / kPage || pages * kPage != notes_at)
      file_.fail(0, fmt::format("the file has {} bytes, but {} ids and {} bytes of notes",
                                file_.size(), end.size, end.notes));
    notes_.resize(end.notes);
    file_.read(notes_at, notes_.data(), end.notes);
    if (end.crc != end.sum(notes_) || end.zero != 0)
      file_.fail(notes_at, "the file's end is damaged: its checksum differs");
  }

  template <class T>
  static void widen(const unsigned char* from, std::span<int64_t> to) {
    for (int64_t& id : to) {
      T value = 0;
      std::memcpy(&value, from, sizeof value);
      id = value;
      from += sizeof value;
    }
  }
  [[noreturn]] void fail_format() const {
    file_.fail(file_.size(), "the file does not end as a file of tokens; it may be cut short");
  }

  RandomFile file_;
  std::string notes_;
  int64_t size_ = 0, vocabulary_ = 0, width_ = 2;
};

TokenStream::TokenStream(std::vector<int64_t> ids)
    : TokenStream(std::make_shared<const std::vector<int64_t>>(std::move(ids))) {}

TokenStream::TokenStream(std::shared_ptr<const std::vector<int64_t>> ids)
    : ids_(std::move(ids)), size_(std::ssize(*ids_)) {}

TokenStream::TokenStream(std::shared_ptr<const detail::TokenPages> pages)
    : pages_(std::move(pages)), size_(pages_->size()) {}

TokenStream TokenStream::open(const std::string& path) {
  return TokenStream(std::make_shared<const detail::TokenPages>(path));
}

void TokenStream::read(int64_t first, std::span<int64_t> to) const {
  check(first >= 0 && first <= size_ && std::ssize(to) <= size_ - first,
        "TokenStream: there are no ids {} to {}; the stream has {}", first, first + std::ssize(to),
        size_);
  if (pages_) return pages_->read(first_ + first, to);
  std::copy_n(ids_->begin() + first_ + first, to.size(), to.begin());
}

std::vector<int64_t> TokenStream::read(int64_t first, int64_t count) const {
  check(first >= 0 && count >= 0 && first <= size_ && count <= size_ - first,
        "TokenStream: there are no {} ids from {} on; the stream has {}", count, first, size_);
  std::vector<int64_t> ids(static_cast<size_t>(count));
  read(first, ids);
  return ids;
}

TokenStream TokenStream::part(int64_t first, int64_t end) const {
  check(first >= 0 && first <= end && end <= size_,
        "TokenStream: there are no ids {} to {}; the stream has {}", first, end, size_);
  TokenStream part = *this;
  part.first_ += first;
  part.size_ = end - first;
  return part;
}

const std::string& TokenStream::notes() const {
  static const std::string kNone;
  return pages_ ? pages_->notes() : kNone;
}

int64_t TokenStream::vocabulary() const { return pages_ ? pages_->vocabulary() : 0; }

namespace {

using tern::detail::fail_write, tern::detail::write_all;

// The nearest folder at or above a path that exists.
std::string existing_folder(const std::string& path) {
  std::filesystem::path at = std::filesystem::path(path.empty() ? "." : path).lexically_normal();
  std::error_code error;
  while (!std::filesystem::is_directory(at, error) && at.has_relative_path()) at = at.parent_path();
  return at.empty() ? "." : at.string();
}

// Creates a file without a name. Returns -1 if the folder can have none.
int open_unnamed(const std::string& folder) {
  const int fd = tern::detail::open_unnamed_file(folder.c_str());
  if (fd >= 0) return fd;
  std::string name = folder + "/tokens-XXXXXX";  // some file systems only have files with names
  const int named = ::mkostemp(name.data(), O_CLOEXEC);
  if (named >= 0) ::unlink(name.c_str());
  return named;
}

bool is_file_at(int fd, const std::string& path) {
  struct stat a {
  }, b{};
  return ::fstat(fd, &a) == 0 && ::stat(path.c_str(), &b) == 0 && a.st_dev == b.st_dev &&
         a.st_ino == b.st_ino;
}

void copy_file(const RandomFile& from, const std::string& path) {
  AtomicFile to(path);
  std::vector<char> buffer(size_t{1} << 20);
  for (int64_t at = 0; at < from.size(); at += std::ssize(buffer)) {
    const int64_t count = std::min(std::ssize(buffer), from.size() - at);
    from.read(at, buffer.data(), count);
    to.write(buffer.data(), count);
  }
  to.commit();
}

}  // namespace

void TokenStream::keep(const std::string& path) const {
  check(pages_ != nullptr, "TokenStream::keep: the ids are in memory, not in a file");
  const RandomFile& file = pages_->file();
  if (is_file_at(file.descriptor(), path)) return;
  // TokenWriter::finish() has synced the bytes to the disk, so only the name is missing.
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) fail_write(path, "cannot be replaced");
  const std::string self = fmt::format("/proc/self/fd/{}", file.descriptor());
  if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0)
    copy_file(file, path);
}

TokenWriter::TokenWriter(const std::string& folder, int64_t vocabulary)
    : place_(existing_folder(folder)), vocabulary_(vocabulary) {
  check(vocabulary >= 1 && vocabulary < kMostTokenIds,
        "TokenWriter: the vocabulary is {}; it must be 1 to {}", vocabulary, kMostTokenIds - 1);
  fd_ = open_unnamed(place_);
  const int reason = errno;
  std::error_code error;
  if (fd_ < 0) fd_ = open_unnamed(std::filesystem::temp_directory_path(error).string());
  errno = reason;
  if (fd_ < 0) fail_write(place_, "cannot create a file there");
}

TokenWriter::~TokenWriter() {
  if (fd_ >= 0) ::close(fd_);
}

void TokenWriter::add(std::span<const int64_t> ids) {
  const int64_t width = width_of(vocabulary_), in_page = kInPage / width;
  for (int64_t id : ids) {
    check(id >= 0 && id < vocabulary_, "TokenWriter: id {} is outside the vocabulary of {}", id,
          vocabulary_);
    if (size_ % in_page == 0) begin_page();
    const auto value = static_cast<uint32_t>(id);  // little-endian: the low bytes come first
    std::memcpy(page_ + size_ % in_page * width, &value, static_cast<size_t>(width));
    if (++size_ % in_page == 0) end_page();
  }
}

void TokenWriter::begin_page() {
  constexpr size_t kPages = 64;  // pages per write
  if (buffer_.size() == kPages * kPage) flush();
  if (buffer_.empty()) buffer_.reserve(kPages * kPage);
  buffer_.resize(buffer_.size() + kPage);
  page_ = buffer_.data() + buffer_.size() - kPage;
}

void TokenWriter::end_page() {
  const uint32_t sum = sum_of(pages_++, page_);
  std::memcpy(page_ + kInPage, &sum, sizeof sum);
}

void TokenWriter::flush() {
  write_all(fd_, buffer_.data(), std::ssize(buffer_), place_);
  buffer_.clear();
}

TokenStream TokenWriter::finish(const std::string& notes) {
  check(std::ssize(notes) <= kMostNotes, "TokenWriter: {} bytes of notes; at most {}", notes.size(),
        kMostNotes);
  if (size_ % (kInPage / width_of(vocabulary_)) != 0) end_page();
  flush();
  TokenEnd end{};
  std::copy(kTokenMagic.begin(), kTokenMagic.end(), end.magic);
  end.size = static_cast<uint64_t>(size_);
  end.vocabulary = static_cast<uint32_t>(vocabulary_);
  end.notes = static_cast<uint32_t>(notes.size());
  end.crc = end.sum(notes);
  write_all(fd_, notes.data(), std::ssize(notes), place_);
  write_all(fd_, &end, kEnd, place_);
  if (::fsync(fd_) != 0) fail_write(place_, "cannot sync");
  const int fd = std::exchange(fd_, -1);
  return TokenStream(std::make_shared<const detail::TokenPages>(fd, place_));
}

}  // namespace tern::datasets
