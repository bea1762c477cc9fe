// Text written by a language model, as it comes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tern/apps/lm/family.h"
#include "tern/data/text/byte_bpe.h"

namespace tern::apps::lm {

/// Makes text out of bytes that come in pieces: whole characters only, bytes that are no UTF-8 as
/// U+FFFD, and nothing from the first stop on. What could still become a character or a stop is
/// held back.
class TextStream {
 public:
  /// `skip`: stops that come before any other text are left out and end nothing. Error if a stop is
  /// empty.
  explicit TextStream(std::vector<std::string> stops = {}, bool skip = false);
  /// What can be shown after these bytes.
  std::string add(std::string_view bytes);
  /// What was held back, at the end.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::string take_characters(bool all);
  std::string take_text(bool all);

  std::vector<std::string> stops_;
  std::string bytes_;  // not yet characters
  std::string text_;   // may become a stop
  bool skip_, stopped_ = false;
};

struct GenerateOptions {
  int64_t max_tokens = 200;
  double temperature = 0.8;  ///< and the next five: as in decode/sampling.h
  int64_t top_k = 0;
  double top_p = 1, min_p = 0;
  double repetition_penalty = 1;
  int64_t repetition_window = 0;
  std::vector<std::string> stop = {};  ///< texts that end it, and are left out
  uint64_t seed = 0;
  int64_t samples = 1;  ///< texts for each prompt
};

/// What was written, and how it came to its end.
struct Generated {
  std::string text = {};     ///< without the prompt
  int64_t tokens = 0;        ///< with those that were cut off by a stop
  int64_t unread = 0;        ///< tokens of the prompt, in front of those that fill the context
  bool limited = false;      ///< max_tokens were written, and no end or stop came
  bool interrupted = false;  ///< `show` said so
};

/// Continues the prompt, or <|endoftext|> where that is empty. That token ends the text too. `show`
/// gets the text piece by piece, a valid UTF-8 each, while it is written; false stops. A text that
/// fills the model's context is continued from its last half. REQUIRES: the model is in evaluation.
/// Error: an empty prompt, and the tokenizer has no <|endoftext|>.
Generated generate(const LanguageModel& model, const datasets::ByteBpe& tokenizer,
                   const std::string& prompt, const GenerateOptions& options,
                   const std::function<bool(std::string_view)>& show = {});

/// The same for several prompts, and several texts of each, which follow each other: of a packed
/// model side by side, where the next text takes the place of one that ends; of others one after
/// the other. Text i draws from stream i of the seed. `show` gets text after text, in their order;
/// once it says false, what was written by then is returned.
std::vector<Generated> generate_all(
    const LanguageModel& model, const datasets::ByteBpe& tokenizer,
    std::span<const std::string> prompts, const GenerateOptions& options,
    const std::function<bool(int64_t text, std::string_view)>& show = {});

/// A text that a person and a model write in turns. The model's keys and values are kept, so each
/// turn reads only what is new. Where the text fills the context, the model forgets the oldest
/// tokens: it reads the last half of the context again, or all of the new line if that is longer.
class Chat {
 public:
  /// REQUIRES: model and tokenizer outlive this; the model is in evaluation.
  Chat(const LanguageModel& model, const datasets::ByteBpe& tokenizer,
       const GenerateOptions& options);
  ~Chat();
  /// Text in front of the first line.
  void begin_with(const std::string& text);
  /// Appends the line and continues the text, as generate() does. All that the model chose stays in
  /// the text, a stop too; behind an answer that was cut off the next line begins a new one. A stop
  /// that comes first is skipped, since the model may end the line before it answers.
  Generated answer(const std::string& line, const std::function<bool(std::string_view)>& show = {});
  /// Whether tokens have left the context.
  bool forgot() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern::apps::lm
