// Fuzzes decoding of text and cutting into lines, whole and in pieces, against a naive version.
#include "tern/data/text/lines/lines.h"

#include "tern/data/loading/text_decoder.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/tests/fuzz/fuzz.h"

namespace {

using namespace tern;
using Lines = std::vector<std::string>;

/// The lines of bytes that arrive in pieces.
Lines lines_in_pieces(std::string_view bytes, size_t piece) {
  datasets::TextDecoder decoder("x");
  datasets::LineCutter cutter;
  Lines lines;
  const auto visit = [&](std::string_view line) { lines.emplace_back(line); };
  std::string text;
  for (; !bytes.empty(); bytes.remove_prefix(std::min(piece, bytes.size()))) {
    text.clear();
    decoder.add(bytes.substr(0, piece), text);
    cutter.add(text, visit);
  }
  text.clear();
  decoder.finish(text);
  cutter.add(text, visit);
  cutter.finish(visit);
  return lines;
}

/// The naive definition of lines.
Lines naive_lines(const std::string& text) {
  Lines lines(1);
  for (size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\n' && text[i] != '\r')
      lines.back() += text[i];
    else if (text[i] == '\r' || i == 0 || text[i - 1] != '\r')
      lines.emplace_back();
  if (lines.back().empty()) lines.pop_back();
  return lines;
}

}  // namespace

// The first byte says whether the text is repeated.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size == 0) return 0;
  std::string text(fuzz::text_of(bytes + 1, size - 1));
  if (bytes[0] & 1) text = fuzz::repeated(text);
  const fuzz::File file(text);
  fuzz::may_refuse_file([&] {
    const Lines lines = datasets::read_lines(file.path());
    const std::string whole = datasets::read_text(file.path());
    fuzz::require(!datasets::find_invalid_utf8(whole));
    fuzz::require(naive_lines(whole) == lines);
    if (!text.starts_with("\x1f\x8b"))
      for (const size_t piece : {1, 5}) fuzz::require(lines_in_pieces(text, piece) == lines);
  });
  return 0;
}
