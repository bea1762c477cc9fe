// Lines of text files, plain or gzip. Files are not trusted: invalid UTF-8, binary data and empty
// files throw IoError with file and line.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tern::datasets {

/// Limit of a line in bytes.
constexpr int64_t kLongestLine = 1 << 20;

/// The lines without their ends (\n or \r\n) and without a byte order mark. A last line may lack
/// its end. IoError: the file cannot be read, is damaged or has no bytes; a line is not valid UTF-8
/// (with its number) or longer than 1 MiB; or the file has so many line ends that its lines would
/// take many times its size in memory.
std::vector<std::string> read_lines(const std::string& path);

/// Calls visit(line) with each line of a text, without its end (\n or \r\n). A last line may lack
/// its end.
template <class Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    visit(line.ends_with('\r') ? line.substr(0, line.size() - 1) : line);
    if (end == text.npos) return;
    text.remove_prefix(end + 1);
  }
}

struct TextOptions {
  int64_t max_bytes = int64_t{1} << 34;
};
/// The whole text, line ends included, without a byte order mark. IoError: the file cannot be read,
/// is damaged or empty, has more than max_bytes, or is not valid UTF-8 (with the byte).
std::string read_text(const std::string& path, const TextOptions& options = {});

/// The lines of two files with the same number of lines; otherwise IoError with both numbers.
std::pair<std::vector<std::string>, std::vector<std::string>> read_aligned(
    const std::string& first_path, const std::string& second_path);

}  // namespace tern::datasets
