// Parses tar headers (ustar, pax, GNU) and reads the members of an archive in order.
#include "tern/data/loading/tar.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "tern/core/base/error.h"
#include "tern/core/base/printable.h"

namespace tern::datasets {
namespace {

constexpr int64_t kBlock = 512;
constexpr int64_t kMaxText = 1 << 20;  // limit of a long name or a pax header; real ones: < 10 kB

using Block = std::array<unsigned char, kBlock>;

// Fields of a header block: offset and length.
struct Field {
  int start, length;
};
constexpr Field kName{0, 100}, kSize{124, 12}, kChecksum{148, 8}, kMagic{257, 6}, kPrefix{345, 155};
constexpr int kType = 156;

std::string_view text_of(const Block& block, Field f) {
  std::string_view field(reinterpret_cast<const char*>(block.data()) + f.start,
                         static_cast<size_t>(f.length));
  return field.substr(0, field.find('\0'));
}

// Reads octal digits between spaces or zeros, or GNU's big-endian binary if the top bit is set.
// Returns nothing for other text and for numbers that are too large.
std::optional<int64_t> number_of(const Block& block, Field f) {
  if (block[f.start] & 0x80) {
    uint64_t value = block[f.start] & 0x7f;
    for (int i = f.start + 1; i < f.start + f.length; ++i) {
      if (value >> 55) return std::nullopt;
      value = value << 8 | block[i];
    }
    return static_cast<int64_t>(value);
  }
  std::string_view digits = text_of(block, f);
  while (!digits.empty() && digits.front() == ' ') digits.remove_prefix(1);
  while (!digits.empty() && digits.back() == ' ') digits.remove_suffix(1);
  int64_t value = 0;
  for (char c : digits) {
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + (c - '0');  // 12 digits fit
  }
  return value;
}

// The checksum is the sum of all bytes, with its own field as spaces. Some old programs summed
// signed bytes, so both are accepted.
bool checksum_is_right(const Block& block) {
  int64_t sum = 0, signed_sum = 0;
  for (int i = 0; i < kBlock; ++i) {
    bool own = i >= kChecksum.start && i < kChecksum.start + kChecksum.length;
    sum += own ? ' ' : block[i];
    signed_sum += own ? ' ' : static_cast<signed char>(block[i]);
  }
  auto stored = number_of(block, kChecksum);
  return stored && (*stored == sum || *stored == signed_sum);
}

bool is_zero(const Block& block) {
  return std::all_of(block.begin(), block.end(), [](unsigned char c) { return c == 0; });
}

std::string name_of(const Block& block) {
  std::string_view magic = text_of(block, kMagic);
  std::string_view prefix = text_of(block, kPrefix);
  std::string name(text_of(block, kName));
  if (magic != "ustar" || prefix.empty()) return name;  // GNU's magic "ustar " has no prefix
  return std::string(prefix) + '/' + name;
}

}  // namespace

// What pax and GNU headers say of the next member.
struct TarReader::Extended {
  std::optional<std::string> name;
  std::optional<int64_t> size;
  bool sparse = false;

  // A pax header is a list of "LENGTH KEY=VALUE\n"; false if it is not.
  bool parse_pax(std::string_view text) {
    while (!text.empty()) {
      size_t length = 0;
      auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), length);
      auto digits = static_cast<size_t>(rest - text.data());
      if (error != std::errc() || length <= digits + 1 || length > text.size()) return false;
      std::string_view line = text.substr(digits, length - digits);
      size_t equals = line.find('=');
      if (line.front() != ' ' || line.back() != '\n' || equals == line.npos) return false;
      if (!set(line.substr(1, equals - 1), line.substr(equals + 1, line.size() - equals - 2)))
        return false;
      text.remove_prefix(length);
    }
    return true;
  }

  bool set(std::string_view key, std::string_view value) {
    if (key == "GNU.sparse.name" || (key == "path" && !sparse)) name = value;
    sparse |= key.starts_with("GNU.sparse.");
    if (key != "size") return true;
    int64_t number = 0;
    auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    size = number;
    return error == std::errc() && rest == value.data() + value.size() && number >= 0;
  }
};

std::string TarReader::read_text(int64_t size) {
  if (size > kMaxText)
    bytes_.fail(fmt::format("a tar header for a long name claims {} bytes", size));
  std::string text(static_cast<size_t>(size), '\0');
  bytes_.read_exactly(text.data(), size);
  bytes_.skip((kBlock - size % kBlock) % kBlock);
  return text;
}

void TarReader::finish_member() {
  bytes_.skip(left_ + padding_);
  left_ = padding_ = 0;
}

std::optional<TarMember> TarReader::next() {
  if (finished_) return std::nullopt;
  finish_member();
  header_ = bytes_.position();
  Extended extended;
  while (true) {
    Block block;
    if (bytes_.read(block.data(), kBlock) < kBlock)
      bytes_.fail("the tar archive is truncated: its end mark is missing");
    if (is_zero(block)) {
      bytes_.drain();
      finished_ = true;
      return std::nullopt;
    }
    if (!checksum_is_right(block)) bytes_.fail("not a tar header, or its checksum is wrong");
    auto const type = static_cast<char>(block[kType]);
    bool const has_content = type < '1' || type > '6';  // links and devices have none
    int64_t size = has_content ? number_of(block, kSize).value_or(-1) : 0;
    bool const about_next = type == 'x' || type == 'L' || type == 'K' || type == 'g';
    if (!about_next && has_content && extended.size) size = *extended.size;
    int64_t const room = bytes_.remaining().value_or(max_bytes_ - bytes_.position());
    if (size < 0 || size > room)
      bytes_.fail(
          fmt::format("the tar header of \"{}\" gives it {} bytes, but at most {} can follow",
                      printable(name_of(block)), size, room));
    if (about_next) {
      std::string const text = read_text(size);
      if (type == 'L') extended.name = text.substr(0, text.find('\0'));
      if (type == 'x' && !extended.parse_pax(text)) bytes_.fail("a damaged pax header");
      continue;
    }
    name_ = extended.name.value_or(name_of(block));
    if (type == 'S' || extended.sparse)
      bytes_.fail(fmt::format("\"{}\" is stored sparse; pack the archive without tar's --sparse",
                              printable(name_)));
    left_ = size;
    padding_ = (kBlock - size % kBlock) % kBlock;
    return TarMember{name_, size, type == '0' || type == '\0' || type == '7'};
  }
}

int64_t TarReader::read(void* to, int64_t n) {
  n = std::min(n, left_);
  bytes_.read_exactly(to, n);
  left_ -= n;
  return n;
}

void TarReader::read_exactly(void* to, int64_t n) {
  if (n > left_)
    bytes_.fail(
        fmt::format("{} of the archive ends {} bytes too early", printable(name_), n - left_));
  read(to, n);
}

}  // namespace tern::datasets
