// Fuzzes the text functions: normalisation, words, subwords, graphemes, display width, BLEU.
#include "tern/data/scores/bleu.h"
#include "tern/data/text/bpe/bpe.h"
#include "tern/data/text/bpe/byte_bpe.h"
#include "tern/data/text/tokenizer/tokenizer.h"
#include "tern/data/text/unicode/unicode.h"
#include "tern/data/text/wordpiece/wordpiece.h"
#include "tern/data/text/words/normalize.h"
#include "tern/data/text/words/words.h"
#include "tern/tests/fuzz/fuzz.h"

namespace {

using namespace tern;
using namespace tern::datasets;

/// Whether the text contains a character that mark_words uses as a mark.
bool has_marks(const std::string& text) {
  return text.find("\xEF\xBF\xAD") != text.npos || text.find("\xE2\x96\x81") != text.npos;
}

void check_words(const std::string& text) {
  const std::string normal = normalize(text);
  fuzz::require(!find_invalid_utf8(normal));
  fuzz::require(has_marks(normal) || join_words(mark_words(normal)) == normal);
  std::string all, spaceless;
  for (const std::string& word : split_words(text)) {
    fuzz::require(!word.empty());
    all += word;
  }
  for (std::string_view part : split_spaces(text)) spaceless += part;
  fuzz::require(all == spaceless);
  join_words(split_words(text));
}

void check_pieces(const std::string& text) {
  static const std::vector<std::string> kTexts = {
      "low lower newest l'homme \xC3\xA9t\xC3\xA9 2024!",
      "low lower newest l'homme \xC3\xA9t\xC3\xA9 2024!"};
  static const Bpe kBpe = Bpe::learn(kTexts);
  static const ByteBpe kByteBpe = ByteBpe::learn(kTexts, {.size = 300});
  static const WordPiece kWordPiece = WordPiece::learn(kTexts);
  fuzz::require(kBpe.decode(kBpe.encode(text)) == text);
  fuzz::require(kByteBpe.decode(kByteBpe.encode(text)) == text);
  const std::string once = kWordPiece.decode(kWordPiece.encode(text));
  fuzz::require(!find_invalid_utf8(once));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  const std::string text(fuzz::text_of(bytes, size));
  check_words(text);
  check_pieces(text);
  normalize(text, NormalizeOptions::d2l_form());
  fuzz::require(display_width(cut_to_width(text, 7)) <= 7);
  std::string whole;
  for (std::string_view part : graphemes(text)) whole += part;
  fuzz::require(whole == text);
  const std::vector<std::string> lines = {replace_invalid_utf8(text)};
  corpus_bleu(lines, lines);
  return 0;
}
