// Recognises an encoding by its byte order mark, converts UTF-16 to UTF-8, and refuses, with
// advice, files that are not text.
#include "tern/data/loading/text_decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "tern/core/base/error.h"
#include "tern/core/base/utf8.h"
#include "tern/core/io/file_kind.h"

namespace tern::datasets {
namespace {

constexpr int64_t kTextBuffer = 64 << 10;

constexpr std::pair<FileKind, const char*> kAdvice[] = {
    {FileKind::pdf, "; convert it, for example with pdftotext FILE.pdf FILE.txt"},
    {FileKind::zip, ", as docx, xlsx, odt and epub files are; save it as plain text"},
    {FileKind::office, "; save it as plain text"},
    {FileKind::rtf, "; save it as plain text"},
    {FileKind::xz, "; unpack it with unxz"},
    {FileKind::bzip2, "; unpack it with bunzip2"},
    {FileKind::zstd, "; unpack it with unzstd"},
    {FileKind::tar, "; unpack it with tar -xf"},
    {FileKind::gzip, "; unpack it"},
    {FileKind::seven_zip, "; unpack it"},
    {FileKind::rar, "; unpack it"},
    {FileKind::git_lfs, "; `git lfs pull` fetches the file"},
};

/// Advice for a file of this kind; it follows the format's name in the error.
const char* remedy_for(FileKind kind) {
  for (const auto& [known, text] : kAdvice)
    if (known == kind) return text;
  return "";
}

constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF", kLittleMark = "\xFF\xFE",
                           kBigMark = "\xFE\xFF";
constexpr std::string_view kLittle32("\xFF\xFE\0\0", 4), kBig32("\0\0\xFE\xFF", 4);

// Whether the first bytes look like English letters in UTF-16: every second byte from `first` (0 or
// 1) on is zero, and no other byte is.
bool alternates(std::string_view bytes, size_t first) {
  const size_t n = std::min<size_t>(bytes.size() & ~size_t{1}, 32);
  if (n < 4) return false;
  for (size_t i = 0; i < n; ++i)
    if ((bytes[i] == 0) != (i % 2 == first)) return false;
  return true;
}

void refuse_other_files(const std::string& name, std::string_view bytes) {
  if (const FileKind kind = file_kind(bytes); kind != FileKind::unknown && kind != FileKind::json)
    fail_io(fmt::format("{}: is not text but {}{}", name, tern::name(kind), remedy_for(kind)));
  for (const std::string_view mark : {kLittle32, kBig32})
    check_io(!bytes.starts_with(mark), "{}: is UTF-32; convert it with iconv -f utf-32 -t utf-8",
             name);
  for (const auto& [first, code] : {std::pair(1, "le"), std::pair(0, "be")})
    check_io(!alternates(bytes, static_cast<size_t>(first)),
             "{}: is UTF-16 without a byte order mark; convert it with iconv -f utf-16{} -t utf-8",
             name, code);
}

}  // namespace

void TextDecoder::add(std::string_view bytes, std::string& to) {
  if (kind_ == Kind::bytes) {
    to += bytes;
  } else if (kind_ == Kind::unknown) {
    waiting_ += bytes;
    begin(false);
    if (kind_ == Kind::unknown) return;
    const std::string rest = std::exchange(waiting_, "");
    add(rest, to);
  } else {
    add_units(bytes, to);
  }
}

void TextDecoder::finish(std::string& to) {
  if (kind_ == Kind::unknown) {
    begin(true);
    const std::string rest = std::exchange(waiting_, "");
    add(rest, to);
  }
  if (is_utf16() && (high_ != 0 || !waiting_.empty())) fail_unit();
}

// Removes the mark from the waiting bytes, as soon as they are enough to recognise it: typed text
// must not wait for more.
void TextDecoder::begin(bool ended) {
  for (const std::string_view mark : {kUtf8Mark, kLittleMark, kBigMark})
    if (!ended && waiting_.size() < mark.size() && mark.starts_with(waiting_)) return;
  refuse_other_files(name_, waiting_);
  kind_ = waiting_.starts_with(kLittleMark) ? Kind::little
          : waiting_.starts_with(kBigMark)  ? Kind::big
                                            : Kind::bytes;
  mark_ = is_utf16()                        ? std::ssize(kBigMark)
          : waiting_.starts_with(kUtf8Mark) ? std::ssize(kUtf8Mark)
                                            : 0;
  waiting_.erase(0, static_cast<size_t>(mark_));
}

void TextDecoder::add_units(std::string_view bytes, std::string& to) {
  const auto unit = [&](char a, char b) {
    const auto first = static_cast<unsigned char>(a), second = static_cast<unsigned char>(b);
    add_unit(kind_ == Kind::little ? first | second << 8 : first << 8 | second, to);
  };
  if (!waiting_.empty() && !bytes.empty()) {
    unit(waiting_[0], bytes[0]);
    waiting_.clear();
    bytes.remove_prefix(1);
  }
  for (; bytes.size() >= 2; bytes.remove_prefix(2)) unit(bytes[0], bytes[1]);
  waiting_ += bytes;
}

void TextDecoder::add_unit(unsigned unit, std::string& to) {
  const bool low = unit >= 0xDC00 && unit < 0xE000, high = unit >= 0xD800 && unit < 0xDC00;
  if (low != (high_ != 0)) fail_unit();
  ++units_;
  if (low)
    append_utf8(to, 0x10000 + ((std::exchange(high_, 0) - 0xD800) << 10) + (unit - 0xDC00));
  else if (high)
    high_ = unit;
  else
    append_utf8(to, unit);
}

void TextDecoder::fail_unit() const {
  fail_io(fmt::format("{}: begins as UTF-16, but byte {} is not valid UTF-16", name_,
                      mark_ + 2 * units_ + 1));
}

Utf8Reader::Utf8Reader(const std::string& path, ByteReader::Options options)
    : bytes_(path, options), decoder_(path) {
  fill();
}

// Decodes more bytes if all decoded ones were returned. Returns false at the end.
bool Utf8Reader::fill() {
  while (at_ == ready_.size() && !ended_) {
    ready_.clear();
    at_ = 0;
    std::string piece(static_cast<size_t>(kTextBuffer), '\0');
    piece.resize(static_cast<size_t>(bytes_.read(piece.data(), kTextBuffer)));
    ended_ = piece.empty();
    if (ended_)
      decoder_.finish(ready_);
    else
      decoder_.add(piece, ready_);
  }
  return at_ < ready_.size();
}

int64_t Utf8Reader::read(char* to, int64_t n) {
  int64_t done = 0;
  while (done < n) {
    if (at_ == ready_.size() && decoder_.passes() && !ended_) {
      const int64_t got = bytes_.read(to + done, n - done);
      ended_ = got < n - done;
      return done + got;
    }
    if (!fill()) break;
    const int64_t some = std::min(n - done, std::ssize(ready_) - static_cast<int64_t>(at_));
    std::memcpy(to + done, ready_.data() + at_, static_cast<size_t>(some));
    at_ += static_cast<size_t>(some);
    done += some;
  }
  return done;
}

void Utf8Reader::skip(int64_t n) {
  while (n > 0) {
    const int64_t held = std::min(n, std::ssize(ready_) - static_cast<int64_t>(at_));
    at_ += static_cast<size_t>(held);
    n -= held;
    if (n > 0 && decoder_.passes()) return bytes_.skip(n);
    if (n > 0 && !fill()) bytes_.fail(fmt::format("ends {} bytes too early", n));
  }
}

}  // namespace tern::datasets
