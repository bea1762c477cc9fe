// Gives a Jinja template its variables, and looks for the tokens in what it writes.
#include "tern/pretrained/chat_template.h"

#include <algorithm>
#include <ctime>
#include <iterator>

#include "tern/core/base/error.h"
#include "tern/pretrained/jinja.h"

namespace tern::pretrained {
namespace {

// Around a token in a message. Unicode reserves these two for such use inside of programs.
constexpr std::string_view kOpen = "\uFDD0", kClose = "\uFDD1";

std::tm local_time(std::chrono::system_clock::time_point now) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm time = {};
  check(::localtime_r(&seconds, &time) != nullptr, "the date has no calendar day");
  return time;
}

jinja::Value to_value(std::span<const Message> messages) {
  jinja::Items items;
  for (const Message& m : messages) {
    jinja::Budget small{100, 1000};
    items.push_back(jinja::Value::dict(
        small, {{std::string("role"), m.role}, {std::string("content"), m.content}}));
  }
  return jinja::Value::list(std::move(items));
}

/// The longest of `tokens` that `text` starts with.
std::string_view token_at(std::string_view text, std::span<const std::string> tokens) {
  std::string_view longest;
  for (const std::string& token : tokens)
    if (text.starts_with(token) && token.size() > longest.size()) longest = token;
  return longest;
}

/// The text without marks, also without those that appear where one is taken out.
std::string without_marks(std::string_view text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (out.ends_with(kOpen) || out.ends_with(kClose)) out.resize(out.size() - kOpen.size());
  }
  return out;
}

/// The text with marks around each of `tokens`. Its own marks go first: one inside of a token would
/// hide the token here, and the tokenizer would still find it.
std::string marked(std::string_view text, std::span<const std::string> tokens) {
  const std::string clean = without_marks(text);
  std::string out;
  for (std::string_view rest = clean; !rest.empty();) {
    const std::string_view token = token_at(rest, tokens);
    if (token.empty())
      out += rest[0];
    else
      ((out += kOpen) += token) += kClose;
    rest.remove_prefix(std::max<size_t>(token.size(), 1));
  }
  return out;
}

}  // namespace

struct ChatTemplate::Impl {
  std::string source;
  jinja::Template jinja;
  Specials specials;
};

ChatTemplate::ChatTemplate(std::string_view jinja, Specials specials)
    : impl_(std::make_shared<const Impl>(
          Impl{std::string(jinja), jinja::Template(jinja), std::move(specials)})) {}

std::string ChatTemplate::render(std::span<const Message> messages,
                                 const RenderOptions& options) const {
  check(!messages.empty(), "a conversation has no messages");
  jinja::Members names = {{"messages", to_value(messages)},
                          {"tools", jinja::None{}},
                          {"documents", jinja::None{}},
                          {"add_generation_prompt", options.generation_prompt}};
  for (const auto& [name, text] : impl_->specials) names.emplace_back(name, text);
  if (options.thinking) names.emplace_back("enable_thinking", *options.thinking);
  try {
    return impl_->jinja.render(names, local_time(options.now));
  } catch (const jinja::Raised& e) {
    fail(std::string("the chat template refuses the conversation: ") + e.what());
  }
}

std::vector<ChatTemplate::Piece> ChatTemplate::pieces(std::span<const Message> messages,
                                                      std::span<const std::string> specials,
                                                      std::span<const std::string> others,
                                                      const RenderOptions& options) const {
  std::vector<std::string> tokens(specials.begin(), specials.end());
  std::ranges::copy_if(others, std::back_inserter(tokens), [&](const std::string& token) {
    const bool blank = token.find_first_not_of(" \t\r\n") == token.npos;  // runs of white space
    return !blank && impl_->source.find(token) != std::string::npos;
  });
  std::vector<Message> safe(messages.begin(), messages.end());
  for (Message& m : safe)
    m.content = marked(m.content, m.role == "assistant" ? specials : std::span(tokens));
  const std::string text = render(safe, options);
  std::vector<Piece> pieces;
  bool plain = false;
  std::string_view rest = text;
  // A template may lose one of two marks. Then a mark only parts two pieces.
  while (!rest.empty()) {
    const size_t open = rest.find(kOpen), close = rest.find(kClose), end = std::min(open, close);
    const std::string_view piece = rest.substr(0, end);
    plain = plain && token_at(piece, tokens) == piece;
    if (!piece.empty()) pieces.push_back({std::string(piece), plain});
    plain = open < close;
    rest.remove_prefix(std::min(end, rest.size() - kOpen.size()) + kOpen.size());
    if (end == rest.npos) break;
  }
  return pieces;
}

std::vector<std::string> ChatTemplate::ends() const {
  const auto eos = impl_->specials.find("eos_token");
  const std::string end_of_text = eos == impl_->specials.end() ? "" : eos->second;
  const std::string answer = "tern-answer";
  std::vector<std::string> ends;
  try {
    const std::string text =
        render(std::vector<Message>{{"user", "a"}, {"assistant", answer}, {"user", "b"}});
    std::string_view rest = text;
    const size_t at = rest.rfind(answer);
    rest.remove_prefix(at == rest.npos ? rest.size() : at + answer.size());
    rest = jinja::strip(rest, nullptr, true, false);
    if (rest.starts_with('<') && !(end_of_text.size() && rest.starts_with(end_of_text)))
      ends.emplace_back(rest.substr(0, rest.find('>') + 1));
  } catch (const Error&) {  // a template for other conversations
  }
  std::erase(ends, "");
  if (!end_of_text.empty()) ends.push_back(end_of_text);
  return ends;
}

}  // namespace tern::pretrained
