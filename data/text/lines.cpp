#include "tern/data/text/lines.h"

#include <string_view>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/data/loading/gzip.h"
#include "tern/data/text/text_reader.h"
#include "tern/data/text/unicode.h"

namespace tern::datasets {
namespace {

// Memory for lines: a free part, then a limit per byte of the file. Lines of one letter need 16
// bytes per byte, real lines two.
constexpr int64_t kFreeMemory = 64 << 20, kMostOfPlain = 20, kMostOfGzip = 200;

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

class LineCollector {
 public:
  explicit LineCollector(const std::string& path) : path_(path) {}

  /// Bytes as they come from the reader.
  void add(std::string_view bytes, const ByteReader& reader) {
    const int64_t most = reader.is_gzip() ? kMostOfGzip : kMostOfPlain;
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      line_ += bytes.substr(0, end);
      check_io(std::ssize(line_) <= kLongestLine,
               "{}: line {} is longer than {} bytes; is this text?", path_, lines_.size() + 1,
               kLongestLine);
      if (end == std::string_view::npos) return;
      finish();
      check_io(memory_ <= kFreeMemory || memory_ / most <= reader.file_position(),
               "{}: {} lines in {} bytes of the file; is this text?", path_, lines_.size(),
               reader.file_position());
      bytes.remove_prefix(end + 1);
    }
  }

  std::vector<std::string> take() {
    if (!line_.empty()) finish();
    return std::move(lines_);
  }

 private:
  void finish() {
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
    if (lines_.empty() && line_.starts_with(kByteOrderMark)) line_.erase(0, 3);
    if (auto at = find_invalid_utf8(line_))
      fail_io(
          fmt::format("{}: line {} is not valid UTF-8 (byte {} of the line); convert the file, "
                      "for example with iconv -f latin1 -t utf-8",
                      path_, lines_.size() + 1, *at + 1));
    memory_ += static_cast<int64_t>(sizeof line_ + line_.size());
    lines_.push_back(line_);  // a copy has no spare capacity
    line_.clear();
  }

  const std::string& path_;
  std::string line_;
  std::vector<std::string> lines_;
  int64_t memory_ = 0;
};

}  // namespace

std::vector<std::string> read_lines(const std::string& path) {
  ByteReader reader(path);
  LineCollector collector(path);
  std::vector<char> buffer(size_t{64} << 10);
  while (const int64_t n = reader.read(buffer.data(), std::ssize(buffer)))
    collector.add({buffer.data(), static_cast<size_t>(n)}, reader);
  check_io(reader.position() > 0, "{}: the file is empty", path);
  return collector.take();
}

std::string read_text(const std::string& path, const TextOptions& options) {
  TextReader reader(path, options.max_bytes);
  std::string text;
  while (reader.read(text)) {
  }
  return text;
}

std::pair<std::vector<std::string>, std::vector<std::string>> read_aligned(
    const std::string& first_path, const std::string& second_path) {
  std::pair lines(read_lines(first_path), read_lines(second_path));
  check_io(lines.first.size() == lines.second.size(),
           "the files are not aligned line by line: {} has {} lines, {} has {}", first_path,
           lines.first.size(), second_path, lines.second.size());
  return lines;
}

}  // namespace tern::datasets
