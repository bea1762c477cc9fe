// The turns of a chat that fits into a model's context.
//
//   Conversation chat({.system = "Be brief.", .context = 2048, .answer = 512},
//                     [&](auto messages) { return encode_chat(tokenizer, format, messages); });
//   std::vector<int64_t> prompt = chat.ask("What is the capital of France?");
//   chat.answered(text_that_the_model_made_of(prompt));
//
// When the prompt leaves no room for an answer, the conversation forgets its oldest turns: a
// message of the user and the answer to it. The system text stays.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "tern/data/text/tokenizer/language_tokenizer.h"
#include "tern/pretrained/chat_template.h"

namespace tern::pretrained {

/// The prompt for the messages. Special tokens stand only where the template writes them: in a
/// message of any role, "<|im_end|>" is text, so that no user and no answer can end a turn or begin
/// one. The same for other added tokens that the template mentions, except in answers. Error: as
/// ChatTemplate::render.
std::vector<int64_t> encode_chat(const datasets::LanguageTokenizer& tokenizer,
                                 const ChatTemplate& format, std::span<const Message> messages);

struct ConversationOptions {
  std::string system = "";  ///< text of the first message; an empty one makes no message
  int64_t context = 0;      ///< tokens that the model takes
  int64_t answer = 0;       ///< tokens of the context that an answer may take
};

class Conversation {
 public:
  using Encode = std::function<std::vector<int64_t>(std::span<const Message>)>;

  /// `encode` gives the prompt for messages, the last of which is the user's. Error: the context
  /// has no room besides the answer.
  Conversation(const ConversationOptions& options, Encode encode);

  /// Adds a message of the user and returns the prompt. Error, which leaves the conversation as it
  /// was: the message alone is too long; the last one has no answer yet; `encode` throws.
  std::vector<int64_t> ask(const std::string& text);
  /// Adds the model's answer. Error: no message waits for one.
  void answered(const std::string& text);

  const std::vector<Message>& messages() const { return messages_; }
  /// How many turns it has forgotten.
  int64_t forgotten() const { return forgotten_; }

 private:
  bool waits() const { return !messages_.empty() && messages_.back().role == "user"; }

  int64_t room_;  // tokens of a prompt
  Encode encode_;
  std::vector<Message> messages_;
  int64_t forgotten_ = 0;
};

}  // namespace tern::pretrained
