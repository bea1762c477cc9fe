// Lines of input as sentences that a model can translate, and what is odd about them.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tern/apps/translate/translator.h"
#include "tern/data/text/coverage.h"

namespace tern::apps::translate {

/// The lines of a file descriptor, of any length that a file's may have.
class LineReader {
 public:
  explicit LineReader(int file) : file_(file) {}

  /// The lines that wait, up to `most`. It waits for the first one alone; there are none at the end
  /// of the input. A line ends with a newline, the last one with the input. IoError of a line that
  /// is too long, once all before it are given; StreamError if the input cannot be read.
  std::vector<std::string> next(size_t most);

 private:
  bool waits(int milliseconds) const;
  void read();

  int file_;
  std::string text_;  // read, and not given yet
  bool ended_ = false;
  int64_t number_ = 0;  // lines given
};

/// Prepares lines for a translator. What it changes, and what a model will hardly translate, it
/// says: once a line, and of each kind for the first twenty lines.
class InputLines {
 public:
  /// `say` is given a text for each note, such as "line 7 is not valid UTF-8; ...".
  InputLines(const Translator& translator, std::function<void(const std::string&)> say);

  /// What is translated for a line: the line; its sentences if it has more tokens than the pairs
  /// that the model was trained on; of a sentence of over 1000 tokens those 1000. At least one.
  std::vector<std::string> prepare(const std::string& line, int64_t number);
  /// Says how many notes were held back.
  void finish();

 private:
  enum class Kind { invalid, cut, too_long, unseen };
  void note(Kind kind, const std::string& text);
  std::string shortened(std::string sentence, int64_t number);

  const data::Tokenizer& tokenizer_;
  data::TextCoverage coverage_;
  int64_t longest_;  // tokens of a line that is translated as it is
  std::function<void(const std::string&)> say_;
  std::map<Kind, int64_t> notes_;
};

/// The n best translations of a line from those of its sentences, best first: all combinations by
/// the sum of their scores. Full-width marks have no space behind them.
std::vector<TranslatedText> join_translations(
    std::span<const std::vector<TranslatedText>> sentences, int64_t n);

}  // namespace tern::apps::translate
