// Generates text with a language model and shows it while it is written; chat.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tern/apps/lm/family.h"
#include "tern/data/text/tokenizer/language_tokenizer.h"

namespace tern::apps::lm {

/// Makes text from bytes that arrive in pieces: only whole characters, U+FFFD for invalid UTF-8,
/// and nothing from the first stop text on. Holds back bytes that may still become a character or a
/// stop.
class TextStream {
 public:
  /// `skip`: stops before any other text are left out and do not end the text. Error if a stop is
  /// empty.
  explicit TextStream(std::vector<std::string> stops = {}, bool skip = false);
  /// Adds bytes and returns the text that can be shown now.
  std::string add(std::string_view bytes);
  /// Ends the stream and returns the text that was held back.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::string take_characters(bool all);
  std::string take_text(bool all);

  std::vector<std::string> stops_;
  std::string bytes_;  // an incomplete character
  std::string text_;   // may become a stop
  bool skip_, stopped_ = false;
};

struct GenerateOptions {
  int64_t max_tokens = 200;
  double temperature = 0.8;  ///< this and the next five: see decode/sampling.h
  int64_t top_k = 0;
  double top_p = 1, min_p = 0;
  double repetition_penalty = 1;
  int64_t repetition_window = 0;
  std::vector<std::string> stop = {};  ///< texts that end generation; they are left out
  uint64_t seed = 0;
  int64_t samples = 1;  ///< texts per prompt
};

/// A generated text, and why it ended.
struct Generated {
  std::string text = {};     ///< without the prompt
  int64_t tokens = 0;        ///< including tokens that a stop cut off
  int64_t unread = 0;        ///< first tokens of the prompt, which did not fit the context
  bool limited = false;      ///< max_tokens were written without an end or stop
  bool interrupted = false;  ///< `show` returned false
};

/// Continues the prompt, or the tokenizer's boundary() if the prompt is empty. Its end tokens end
/// the text.
/// `show` gets the text while it is written, in pieces of valid UTF-8; returning false stops. When
/// a text fills the model's context, it is continued from its last half. REQUIRES: the model is in
/// evaluation mode. Error: the prompt is empty and the tokenizer has no boundary().
Generated generate(const LanguageModel& model, const datasets::LanguageTokenizer& tokenizer,
                   const std::string& prompt, const GenerateOptions& options,
                   const std::function<bool(std::string_view)>& show = {});

/// The same for several prompts with several texts each; the texts of a prompt follow each other. A
/// packed model writes texts in parallel, and starts the next one when one ends; other models write
/// one after the other. Text i draws from random stream i of the seed. `show` gets the texts in
/// order; when it returns false, the result is what was written so far.
std::vector<Generated> generate_all(
    const LanguageModel& model, const datasets::LanguageTokenizer& tokenizer,
    std::span<const std::string> prompts, const GenerateOptions& options,
    const std::function<bool(int64_t text, std::string_view)>& show = {});

/// A text that a user and a model write in turns. The model keeps its keys and values, so each turn
/// reads only new tokens. When the text fills the context, the model forgets the oldest tokens: it
/// reads the last half of the context again, or all of the new line if that is longer.
class Chat {
 public:
  /// REQUIRES: the model outlives this object and is in evaluation mode.
  Chat(const LanguageModel& model, const datasets::LanguageTokenizer& tokenizer,
       const GenerateOptions& options);
  ~Chat();
  /// Puts text in front of the first line. The first text follows the tokens that a published
  /// tokenizer puts before texts.
  void begin_with(const std::string& text);
  /// Appends the line and continues the text as generate() does. All tokens that the model chose
  /// stay in the text, also a stop. After an answer that was cut off, the next line begins with a
  /// line end. A stop before any other text is skipped: the model may end the user's line first.
  Generated answer(const std::string& line, const std::function<bool(std::string_view)>& show = {});
  /// Continues a text of these tokens, which replaces the text so far. The model reads only what
  /// follows the beginning that both have, if that is all of the text so far. Error: no tokens, or
  /// more than the context.
  Generated reply(std::vector<int64_t> text,
                  const std::function<bool(std::string_view)>& show = {});
  /// Whether tokens have left the context.
  bool forgot() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace tern::apps::lm
