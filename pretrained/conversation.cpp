// Keeps the turns of a chat, and forgets the oldest when the context is full.
#include "tern/pretrained/conversation.h"

#include <algorithm>
#include <utility>

#include "tern/core/base/error.h"

namespace tern::pretrained {

std::vector<int64_t> encode_chat(const datasets::LanguageTokenizer& tokenizer,
                                 const ChatTemplate& format, std::span<const Message> messages) {
  std::vector<int64_t> ids;
  for (const auto& [text, plain] :
       format.pieces(messages, tokenizer.added(true), tokenizer.added(false))) {
    const std::vector<int64_t> more = plain ? tokenizer.encode_plain(text) : tokenizer.encode(text);
    check(!plain || std::ranges::count(more, *tokenizer.id(text)) == 0,
          "a message contains '{}', which this tokenizer always reads as a special token", text);
    ids.insert(ids.end(), more.begin(), more.end());
  }
  return ids;
}

Conversation::Conversation(const ConversationOptions& options, Encode encode)
    : room_(options.context - options.answer), encode_(std::move(encode)) {
  check(options.answer >= 0 && room_ > 0,
        "a context of {} tokens has no room for a message and an answer of {} tokens",
        options.context, options.answer);
  if (!options.system.empty()) messages_.push_back({"system", options.system});
}

std::vector<int64_t> Conversation::ask(const std::string& text) {
  check(!waits(), "the last message of the user has no answer yet");
  std::vector<Message> messages = messages_;
  messages.push_back({"user", text});
  const size_t first = messages[0].role == "system";  // message of the oldest turn
  for (int64_t turns = 0;; ++turns) {
    std::vector<int64_t> prompt = encode_(messages);
    if (std::ssize(prompt) <= room_) {
      messages_ = std::move(messages);
      forgotten_ += turns;
      return prompt;
    }
    check(messages.size() > first + 1,
          "the message has {} tokens in its prompt; the context has room for {}", prompt.size(),
          room_);
    const auto oldest = messages.begin() + static_cast<std::ptrdiff_t>(first);
    messages.erase(oldest, oldest + 2);
  }
}

void Conversation::answered(const std::string& text) {
  check(waits(), "no message of the user waits for an answer");
  messages_.push_back({"assistant", text});
}

}  // namespace tern::pretrained
