// Cuts text for BPE where the class of characters changes.
#include "tern/data/text/bpe/bpe_chunks.h"

#include "tern/data/text/unicode/unicode.h"

namespace tern::datasets::detail {
namespace {

constexpr size_t kLongestChunk = 128;

CharacterClass class_at(std::string_view text, size_t at) {
  return classify(next_code_point(text, at));
}

// End of the run of characters of one class that starts at `begin`.
size_t run_end(std::string_view text, size_t begin, size_t limit) {
  const CharacterClass kind = class_at(text, begin);
  size_t at = begin;
  while (at < text.size() && at < limit && class_at(text, at) == kind) next_code_point(text, at);
  return at;
}

// Moves past an apostrophe between letters, which belongs to the chunk before it.
size_t past_apostrophe(std::string_view text, size_t begin, size_t at) {
  if (at == text.size() || class_at(text, begin) != CharacterClass::letter) return at;
  size_t next = at;
  const char32_t mark = next_code_point(text, next);
  if ((mark != '\'' && mark != 0x2019) || next == text.size()) return at;
  return class_at(text, next) == CharacterClass::letter ? next : at;
}

size_t word_chunk_end(std::string_view text, size_t begin) {
  size_t word = begin;
  if (class_at(text, begin) == CharacterClass::space) {
    const size_t end = run_end(text, begin, begin + kLongestChunk);
    // The last character of a run goes with the word that follows, if it is a plain space.
    const bool before_word =
        end < text.size() && text[end - 1] == ' ' && class_at(text, end) != CharacterClass::space;
    if (!before_word) return end;
    if (end - begin > 1) return end - 1;
    word = end;
  }
  return past_apostrophe(text, word, run_end(text, word, begin + kLongestChunk));
}

}  // namespace

std::vector<std::string_view> bpe_chunks(std::string_view text) {
  return chunks_by(text, [&](size_t at) { return word_chunk_end(text, at); });
}

std::string with_space(std::string_view text) {
  std::string out(text.empty() ? "" : " ");
  return out.append(text);
}

}  // namespace tern::datasets::detail
