// Text written by a language model, as it comes.
#pragma once

#include <cstdint>
#include <functional>
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
  /// Error if a stop is empty.
  explicit TextStream(std::vector<std::string> stops = {});
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
  bool stopped_ = false;
};

struct GenerateOptions {
  int64_t max_tokens = 200;
  double temperature = 0.8;  ///< 0: always the likeliest token
  int64_t top_k = 0;         ///< 0: all
  double top_p = 1;
  std::vector<std::string> stop = {};  ///< texts that end it, and are left out
  uint64_t seed = 0;
};

/// What was written, and how it came to its end.
struct Generated {
  std::string text;          ///< without the prompt
  int64_t tokens = 0;        ///< with those that were cut off by a stop
  bool interrupted = false;  ///< `show` said so
};

/// Goes on from the prompt; from <|endoftext|> where that is empty. That token ends the text too.
/// `show` gets the text piece by piece, a valid UTF-8 each, while it is written; false stops. Where
/// the text fills the model's context, the model goes on from its last half. REQUIRES: the model is
/// in evaluation. Error: an empty prompt, and the tokenizer has no <|endoftext|>.
Generated generate(const LanguageModel& model, const data::ByteBpe& tokenizer,
                   const std::string& prompt, const GenerateOptions& options,
                   const std::function<bool(std::string_view)>& show = {});

/// The same for several prompts: of a packed model side by side, where the next prompt takes the
/// place of a text that ends; of others one after the other. Prompt i draws from stream i of the
/// seed. `show` gets text after text, in their order; once it says false, what was written by then
/// is returned.
std::vector<Generated> generate_all(
    const LanguageModel& model, const data::ByteBpe& tokenizer,
    std::span<const std::string> prompts, const GenerateOptions& options,
    const std::function<bool(int64_t text, std::string_view)>& show = {});

}  // namespace tern::apps::lm
