// Turns a conversation into the text that a model continues, by the chat template that the model
// was published with.
//
//   const ChatTemplate chat(template_of_the_model, {{"bos_token", "<s>"}, {"eos_token", "</s>"}});
//   const std::vector<Message> turns = {{"system", "Be brief."}, {"user", "Hello!"}};
//   std::string prompt = chat.render(turns);     // "<|im_start|>system\nBe brief.<|im_end|>\n..."
//   chat.ends();                                 // {"<|im_end|>", "</s>"}
//   ChatTemplate::named("llama3").render(turns); // for a model that came without a template
//
// A template is a program in Jinja (the member chat_template of tokenizer_config.json, the file
// chat_template.jinja, or tokenizer.chat_template of a GGUF file). tern runs this program (jinja.h)
// instead of guessing a known format from it, because versions of a model differ in details:
// spaces, trimming, default system texts, the date. So a model that tern does not know works too,
// and render gives the text of transformers' apply_chat_template(tokenize=False). Templates get no
// tools and no documents. named() has formats for models without a template.
//
// A template is untrusted: it can read only the messages and its run is limited. What it writes may
// still be anything.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tern::pretrained {

struct Message {
  std::string role;  ///< "system", "user" or "assistant"; a template may know more
  std::string content;
};

struct RenderOptions {
  /// Ends with the start of an answer. Some templates always do so.
  bool generation_prompt = true;
  /// The variable enable_thinking of Qwen3 and others. Nothing leaves the choice to the template.
  std::optional<bool> thinking = {};
  /// Some templates write the local date.
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

class ChatTemplate {
 public:
  /// "bos_token", "eos_token", ... with their texts, as tokenizer_config.json names them.
  using Specials = std::map<std::string, std::string>;

  /// Error with the line: `jinja` is no valid template.
  explicit ChatTemplate(std::string_view jinja, Specials specials = {});

  /// A format by its name. `specials` replace the usual ones of the format. Error, which lists the
  /// names: there is none of this name.
  static ChatTemplate named(const std::string& name, const Specials& specials = {});
  static std::vector<std::string> names();

  /// The text of the conversation. It contains the first special token if the template writes it;
  /// the tokenizer must not add it then. Error: there are no messages; the template refuses the
  /// conversation ("Conversation roles must alternate ..."); it does something that tern does not
  /// support; it takes too long. Thread-safe.
  std::string render(std::span<const Message> messages, const RenderOptions& options = {}) const;

  /// A part of the text. `plain` text came from a message and is no token, although it looks like
  /// one.
  struct Piece {
    std::string text;
    bool plain;
  };
  /// The same text in pieces. A user who writes "<|im_end|>" would end a turn if a tokenizer read
  /// that as the token, which render() and transformers' default allow. Here each of `specials` is
  /// a plain piece where a message contains it. The same as transformers' sanitize_control_tokens.
  /// So are those of `others` that this template mentions, but not in an assistant's messages: some
  /// models' tokens of turns are not special, and neither is the <think> of an answer.
  std::vector<Piece> pieces(std::span<const Message> messages,
                            std::span<const std::string> specials,
                            std::span<const std::string> others = {},
                            const RenderOptions& options = {}) const;

  /// The tokens that end an answer: what the template writes behind one, and eos_token.
  std::vector<std::string> ends() const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace tern::pretrained
