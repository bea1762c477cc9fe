// Reads lines to translate, and prepares them as sentences that a model can translate.
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tern/apps/translate/translator.h"
#include "tern/data/loading/text_decoder.h"
#include "tern/data/text/lines/lines.h"
#include "tern/data/text/tokenizer/coverage.h"

namespace tern::apps::translate {

/// Reads lines from standard input or another file descriptor, with the line ends, encodings and
/// longest line of data/text/lines/lines.h.
class LineReader {
 public:
  explicit LineReader(int file) : file_(file) {}

  /// The lines that are ready, up to `most`. Waits only for the first one; returns no line at the
  /// end of the input. The last line may lack a line end. IoError for input that is not text, or
  /// for a line that is too long, after all lines before it were returned; StreamError if reading
  /// fails.
  std::vector<std::string> next(size_t most);

 private:
  bool waits(int milliseconds) const;
  void read();
  void add(std::string_view line);

  int file_;
  datasets::TextDecoder decoder_{"standard input"};
  datasets::LineCutter cutter_;
  std::deque<std::string> ready_;  // read, not returned yet
  bool ended_ = false;
  int64_t number_ = 0;    // lines read
  int64_t too_long_ = 0;  // number of the line that is too long, the last one read
};

/// Translates lines of any length, and prepares them for that. Reports changes to lines, and text
/// that the model will hardly translate, for the first twenty lines of each kind.
class InputLines {
 public:
  /// `say` gets the text of each note, such as "line 7 is not valid UTF-8; ...".
  InputLines(const Translator& translator, std::function<void(const std::string&)> say);

  /// The sentences to translate for a line, at least one: the line itself, or its sentences if it
  /// has more tokens than the training pairs. Each is cut to 1000 tokens.
  std::vector<std::string> prepare(const std::string& line, int64_t number);
  /// The n best translations of each line, best first. `first` is the number of the first line.
  /// `took` gets every sentence with its translation. Empty if `progress` stopped it.
  Translations translate(
      const Search& search, std::span<const std::string> lines, int64_t first, int64_t n,
      const TranslationProgress& progress = {},
      const std::function<void(const std::string&, const TranslatedText&)>& took = {});
  /// Reports how many notes were left out.
  void finish();

 private:
  enum class Kind { invalid, cut, too_long, unseen };
  void note(Kind kind, const std::string& text);
  std::string shortened(std::string sentence, int64_t number);

  const Tokenizers& tokenizers_;
  datasets::TextCoverage coverage_;
  int64_t longest_;  // most tokens of a line that is not split
  std::function<void(const std::string&)> say_;
  std::map<Kind, int64_t> notes_;
};

/// The n best translations of a line, best first: the combinations of its sentences' translations
/// with the highest sums of scores. No space follows full-width marks.
std::vector<TranslatedText> join_translations(
    std::span<const std::vector<TranslatedText>> sentences, int64_t n);

}  // namespace tern::apps::translate
