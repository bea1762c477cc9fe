// Reads a file's lines with limits on their length and memory; finds line ends across pieces.
#include "tern/data/text/lines/lines.h"

#include <string_view>
#include <vector>

#include "tern/core/base/error.h"
#include "tern/data/loading/text_decoder.h"
#include "tern/data/text/lines/text_reader.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets {
namespace {

// Limits on the memory of lines: kFreeMemory is always allowed, then a number of bytes per byte of
// the file. Lines of one letter need 16 bytes per byte, real lines two.
constexpr int64_t kFreeMemory = 64 << 20, kMostOfPlain = 20, kMostOfGzip = 200;

struct Lines {
  std::vector<std::string> lines;
  int64_t lone_returns;  // line ends that are a CR without a LF
};

class LineCollector {
 public:
  explicit LineCollector(const std::string& path) : path_(path) {}

  /// Takes bytes as they come from the reader.
  void add(std::string_view bytes, const ByteReader& file) {
    const int64_t most = file.is_gzip() ? kMostOfGzip : kMostOfPlain;
    cutter_.add(bytes, [&](std::string_view line) {
      finish(line);
      check_io(memory_ <= kFreeMemory || memory_ / most <= file.file_position(),
               "{}: {} lines in {} bytes of the file; is this text?", path_, lines_.size(),
               file.file_position());
    });
    check_length(cutter_.waiting());
  }

  Lines take() {
    cutter_.finish([&](std::string_view line) { finish(line); });
    return {std::move(lines_), cutter_.lone_returns()};
  }

 private:
  void check_length(int64_t bytes) const {
    check_io(bytes <= kLongestLine, "{}: line {} is longer than {} bytes; is this text?", path_,
             lines_.size() + 1, kLongestLine);
  }

  void finish(std::string_view line) {
    check_length(std::ssize(line));
    if (auto at = find_invalid_utf8(line))
      fail_io(
          fmt::format("{}: line {} is not valid UTF-8 (byte {} of the line); convert the file, "
                      "for example with iconv -f latin1 -t utf-8",
                      path_, lines_.size() + 1, *at + 1));
    memory_ += static_cast<int64_t>(sizeof(std::string) + line.size());
    lines_.emplace_back(line);
  }

  const std::string& path_;
  LineCutter cutter_;
  std::vector<std::string> lines_;
  int64_t memory_ = 0;
};

Lines lines_of(const std::string& path) {
  Utf8Reader reader(path);
  LineCollector collector(path);
  std::string buffer(size_t{64} << 10, '\0');
  int64_t all = 0;
  while (const int64_t n = reader.read(buffer.data(), std::ssize(buffer))) {
    collector.add(std::string_view(buffer).substr(0, static_cast<size_t>(n)), reader.file());
    all += n;
  }
  check_io(all > 0, "{}: the file is empty", path);
  return collector.take();
}

// " (2 of them ended by a CR without a LF)".
std::string returns_text(int64_t count) {
  return count == 0 ? "" : fmt::format(" ({} of them ended by a CR without a LF)", count);
}

}  // namespace

size_t LineCutter::begin(std::string_view piece) {
  if (!after_return_ || piece.empty()) return 0;
  after_return_ = false;
  if (piece[0] != '\n') return 0;
  --lone_returns_;
  return 1;
}

size_t LineCutter::after(std::string_view piece, size_t end) {
  if (piece[end] == '\n') return end + 1;
  after_return_ = end + 1 == piece.size();
  const bool pair = !after_return_ && piece[end + 1] == '\n';
  lone_returns_ += !pair;
  return end + (pair ? 2 : 1);
}

std::vector<std::string> read_lines(const std::string& path) { return lines_of(path).lines; }

std::string read_text(const std::string& path, const TextOptions& options) {
  TextReader reader(path, options.max_bytes);
  std::string text;
  while (reader.read(text)) {
  }
  text.shrink_to_fit();  // it grew by doubling, and some texts are kept
  return text;
}

std::pair<std::vector<std::string>, std::vector<std::string>> read_aligned(
    const std::string& first_path, const std::string& second_path) {
  Lines first = lines_of(first_path), second = lines_of(second_path);
  check_io(first.lines.size() == second.lines.size(),
           "the files are not aligned line by line: {} has {} lines{}, {} has {}{}", first_path,
           first.lines.size(), returns_text(first.lone_returns), second_path, second.lines.size(),
           returns_text(second.lone_returns));
  return {std::move(first.lines), std::move(second.lines)};
}

}  // namespace tern::datasets
