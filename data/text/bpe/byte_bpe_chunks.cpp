// Cuts text as the regular expressions of GPT-2 and Llama 3 do, without a regular expression, and
// writes bytes as visible characters.
#include "tern/data/text/bpe/byte_bpe_chunks.h"

#include <utf8proc.h>

#include "tern/data/text/bpe/bpe_chunks.h"
#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets::detail {
namespace {

enum class Kind { letter, number, space, mark };

Kind kind_of(char32_t c) {
  if (is_white_space(c)) return Kind::space;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) return Kind::letter;
  if (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO) return Kind::number;
  return Kind::mark;
}

Kind kind_at(std::string_view text, size_t at) { return kind_of(next_code_point(text, at)); }

/// End of the run of one kind that starts at `at`.
size_t run_end(std::string_view text, size_t at) {
  const Kind kind = kind_at(text, at);
  while (at < text.size()) {
    size_t next = at;
    if (kind_of(next_code_point(text, next)) != kind) break;
    at = next;
  }
  return at;
}

/// Length of 's, 't, 're, 've, 'm, 'll or 'd; 0 for none of them.
size_t contraction(std::string_view text) {
  for (std::string_view end : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"})
    if (text.starts_with(end)) return end.size();
  return 0;
}

/// End of a chunk that begins with white space. Before other text, a run leaves its last character
/// to the next chunk: a plain space joins the run that follows, another one stands alone.
size_t space_end(std::string_view text, size_t begin) {
  const size_t end = run_end(text, begin);
  if (end == text.size()) return end;
  size_t last = begin;
  for (size_t at = begin; at < end; next_code_point(text, at)) last = at;
  if (last > begin) return last;
  return text[begin] == ' ' ? run_end(text, end) : end;
}

size_t chunk_end(std::string_view text, size_t begin) {
  if (const size_t length = contraction(text.substr(begin))) return begin + length;
  return kind_at(text, begin) == Kind::space ? space_end(text, begin) : run_end(text, begin);
}

/// Length of a contraction in upper or lower case; ſ counts as an s.
size_t any_contraction(std::string_view text) {
  if (!text.starts_with('\'')) return 0;
  if (text.substr(1).starts_with("ſ")) return 3;
  return contraction(lower_ascii(std::string(text.substr(0, 3))));
}

/// Moves `at` past carriage returns and line feeds.
size_t past_lines(std::string_view text, size_t at) {
  while (at < text.size() && (text[at] == '\r' || text[at] == '\n')) ++at;
  return at;
}

size_t line_space_end(std::string_view text, size_t begin) {
  const size_t end = run_end(text, begin);
  for (size_t at = end; at > begin; --at)
    if (text[at - 1] == '\r' || text[at - 1] == '\n') return at;
  if (end == text.size()) return end;
  size_t last = begin;
  for (size_t at = begin; at < end; next_code_point(text, at)) last = at;
  return last > begin ? last : end;
}

size_t line_chunk_end(std::string_view text, size_t begin, int most_digits) {
  if (const size_t length = any_contraction(text.substr(begin))) return begin + length;
  const Kind kind = kind_at(text, begin);
  if (kind == Kind::letter) return run_end(text, begin);
  size_t next = begin;
  if (kind == Kind::number) {
    for (int n = 0; n < most_digits && next < text.size(); ++n) {
      size_t after = next;
      if (kind_of(next_code_point(text, after)) != Kind::number) break;
      next = after;
    }
    return next;
  }
  const char32_t c = next_code_point(text, next);
  const bool line = c == '\r' || c == '\n';
  if (!line && next < text.size() && kind_at(text, next) == Kind::letter)
    return run_end(text, next);
  if (kind == Kind::mark) return past_lines(text, run_end(text, begin));
  if (c == ' ' && next < text.size() && kind_at(text, next) == Kind::mark)
    return past_lines(text, run_end(text, next));
  return line_space_end(text, begin);
}

bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

constexpr char32_t kFirstOther = 0x100;

/// The visible character that represents each byte.
const std::array<char32_t, 256>& characters() {
  static const auto kCharacters = [] {
    std::array<char32_t, 256> out{};
    char32_t next = kFirstOther;
    for (int byte = 0; byte < 256; ++byte)
      out[byte] = stands_for_itself(byte) ? static_cast<char32_t>(byte) : next++;
    return out;
  }();
  return kCharacters;
}

}  // namespace

bool is_white_space(char32_t c) { return is_space(c) && !(c >= 0x1C && c <= 0x1F); }

std::vector<std::string_view> byte_bpe_chunks(std::string_view text) {
  return chunks_by(text, [&](size_t at) { return chunk_end(text, at); });
}

std::vector<std::string_view> line_bpe_chunks(std::string_view text, int most_digits) {
  return chunks_by(text, [&](size_t at) { return line_chunk_end(text, at, most_digits); });
}

const std::array<uint8_t, 256>& byte_order() {
  static const auto kOrder = [] {
    std::array<uint8_t, 256> out{};
    size_t next = 0;
    for (bool itself : {true, false})
      for (int byte = 0; byte < 256; ++byte)
        if (stands_for_itself(byte) == itself) out[next++] = static_cast<uint8_t>(byte);
    return out;
  }();
  return kOrder;
}

std::string spelt(std::string_view bytes) {
  std::string out;
  for (char c : bytes) append_utf8(out, characters()[static_cast<unsigned char>(c)]);
  return out;
}

std::optional<std::string> unspelt(std::string_view text) {
  static const auto kBytes = [] {
    std::array<int16_t, 512> out{};
    out.fill(-1);
    for (int byte = 0; byte < 256; ++byte) out[characters()[byte]] = static_cast<int16_t>(byte);
    return out;
  }();
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_code_point(text, at);
    if (c >= kBytes.size() || kBytes[c] < 0) return std::nullopt;
    bytes += static_cast<char>(kBytes[c]);
  }
  return bytes;
}

}  // namespace tern::datasets::detail
