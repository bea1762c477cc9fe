// Lines of text files, plain or gzip. Nothing is trusted: what is not UTF-8, not text or empty
// throws IoError with the file and the line.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tern::data {

/// Bytes of a line at most.
constexpr int64_t kLongestLine = 1 << 20;

/// The lines without their ends (\n or \r\n) and without a byte order mark. A last line without an
/// end counts. IoError: the file cannot be read or is damaged, has no bytes at all, has a line
/// that is not valid UTF-8 (with its number) or is longer than 1 MiB, or is so much of line ends
/// that its lines would take many times its size in memory.
std::vector<std::string> read_lines(const std::string& path);

struct TextOptions {
  int64_t max_bytes = int64_t{1} << 34;
};
/// The whole text as it is, line ends included, without a byte order mark. IoError: the file cannot
/// be read, is damaged or empty, has more than max_bytes, or is not valid UTF-8 (with the byte).
std::string read_text(const std::string& path, const TextOptions& options = {});

/// The lines of two files of equal length; IoError with both counts if they are not.
std::pair<std::vector<std::string>, std::vector<std::string>> read_aligned(
    const std::string& first_path, const std::string& second_path);

}  // namespace tern::data
