// Lines of text files, plain or gzip, in UTF-8 or in UTF-16 with its mark (text_decoder.h). A line
// ends with LF, CRLF or a lone CR, as Python reads text. Files are not trusted: invalid UTF-8,
// binary data and empty files throw IoError with file and line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern::datasets {

/// Limit of a line in bytes.
constexpr int64_t kLongestLine = 1 << 20;

/// The lines without their ends and without a byte order mark. A last line may lack its end.
/// IoError: the file cannot be read, is damaged or has no bytes; a line is not valid UTF-8 (with
/// its number) or longer than 1 MiB; or the lines would take more memory than 64 MiB and 20 times
/// the file's size (200 times for gzip), not counting room to grow.
std::vector<std::string> read_lines(const std::string& path);

/// Cuts a text that comes in pieces into lines, without their ends.
class LineCutter {
 public:
  /// Calls visit(line) with each line that ends in the piece. A CR at the end of the piece ends its
  /// line at once; a LF at the beginning of the next piece then belongs to that line end.
  template <class Visit>
  void add(std::string_view piece, Visit&& visit) {
    size_t at = begin(piece), lf = at, cr = at;  // the next line ends from `at` on
    while (at < piece.size()) {
      if (lf != piece.npos && lf <= at) lf = piece.find('\n', at);
      if (cr != piece.npos && cr <= at) cr = piece.find('\r', at);
      const size_t end = lf < cr ? lf : cr;
      if (end == piece.npos) break;
      if (rest_.empty()) {
        visit(piece.substr(at, end - at));
      } else {
        rest_ += piece.substr(at, end - at);
        visit(std::string_view(rest_));
        rest_.clear();
      }
      at = after(piece, end);
    }
    rest_ += piece.substr(at < piece.size() ? at : piece.size());
  }
  /// Visits the last line, if it lacks its end.
  template <class Visit>
  void finish(Visit&& visit) {
    if (!rest_.empty()) visit(std::string_view(rest_));
    rest_.clear();
  }
  /// Bytes of the line that has not ended.
  int64_t waiting() const { return static_cast<int64_t>(rest_.size()); }
  /// Lines that ended with a CR without a LF.
  int64_t lone_returns() const { return lone_returns_; }

 private:
  size_t begin(std::string_view piece);
  size_t after(std::string_view piece, size_t end);

  std::string rest_;
  bool after_return_ = false;  // the last piece ended with a CR
  int64_t lone_returns_ = 0;
};

/// Calls visit(line) with each line of a text, without its end. A last line may lack its end.
template <class Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  LineCutter lines;
  lines.add(text, visit);
  lines.finish(visit);
}

struct TextOptions {
  int64_t max_bytes = int64_t{1} << 34;
};
/// The whole text, line ends included, without a byte order mark. IoError: the file cannot be read,
/// is damaged or empty, has more than max_bytes, or is not valid UTF-8 (with the byte). Memory: the
/// text, up to three times while it grows. A gzip file unpacks to at most 16 MiB or 100 times its
/// size.
std::string read_text(const std::string& path, const TextOptions& options = {});

/// The lines of two files. IoError if their numbers of lines differ: the error gives both numbers
/// and counts the lone CRs, which may stand inside the lines of one file.
std::pair<std::vector<std::string>, std::vector<std::string>> read_aligned(
    const std::string& first_path, const std::string& second_path);

}  // namespace tern::datasets
