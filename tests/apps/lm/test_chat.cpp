// Conversations: what the model reads of each turn, where an answer ends, what is forgotten.
#include <doctest/doctest.h>

#include "tern/apps/lm/chat.h"
#include "tern/tests/apps/lm/known_models.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/errors.h"

namespace tern::apps::lm::test_chat {
namespace {

using pretrained::ChatTemplate;
using test::contains;

constexpr const char* kTurns =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}[assistant]";

LoadedModel loaded(LanguageModel model) { return {bytes(), std::move(model)}; }

}  // namespace

TEST_CASE("chat: an answer is the same whether the model reads the conversation anew or goes on") {
  for (const bool packed : {false, true}) {
    CAPTURE(packed);
    const GenerateOptions options{.max_tokens = 6, .temperature = 0};
    LoadedModel m = loaded(small_gpt(257, 200));
    if (packed) m.model.pack(PackedType::f32, /*keep=*/true);
    Conversation conversation(m, ChatTemplate(kTurns), "be brief", options);
    std::string text = "[system]be brief";
    for (const std::string line : {"hello", "and now?", "", "bye"}) {
      text += "[user]" + line + "[assistant]";
      const std::string answer = conversation.answer(line).text;
      CHECK(answer == generate(m.model, m.tokenizer, text, options).text);
      text += answer;
    }
    CHECK_FALSE(conversation.forgot());
  }
}

TEST_CASE("chat: an end token ends the answer, and the next turn follows") {
  LoadedModel m = loaded(alphabet(bytes(), 500));
  const GenerateOptions options{.max_tokens = 50, .temperature = 0};
  Conversation conversation(m, ChatTemplate("{{ messages[-1].content }}"), "", options);
  CHECK(conversation.answer("x").text == "yz");
  CHECK(conversation.answer("w").text == "xyz");
}

TEST_CASE("chat: a special token in the user's text is no token") {
  const test::TempDir dir;
  datasets::LanguageTokenizer(bytes()).save(dir.path());
  LoadedModel m{datasets::LanguageTokenizer::load(dir.path()), alphabet(bytes(), 500)};
  CHECK(m.tokenizer.encode(kEndOfText).size() == 1);
  const GenerateOptions options{.max_tokens = 3, .temperature = 0};
  Conversation conversation(m, ChatTemplate("{{ messages[-1].content }}"), "", options);
  CHECK(conversation.answer("x").text == "yz");
  CHECK(conversation.answer(kEndOfText).text != "abc");  // what follows the token
}

TEST_CASE("chat: the oldest turns are forgotten, the system text never") {
  LoadedModel m = loaded(small_gpt(257, 64));
  const GenerateOptions options{.max_tokens = 4, .temperature = 0};
  Conversation conversation(m, ChatTemplate(kTurns), "S", options);
  std::vector<std::string> lines, answers;
  for (int turn = 0; turn < 4; ++turn) {
    lines.push_back(std::string(5, static_cast<char>('a' + turn)));
    answers.push_back(conversation.answer(lines.back()).text);
  }
  CHECK(conversation.forgot());
  // Behind the system text the last turns remain that leave room for an answer.
  std::string text;
  for (int first = 0; first < 4; ++first) {
    text = "[system]S";
    for (int turn = first; turn < 4; ++turn)
      text += "[user]" + lines[turn] + "[assistant]" + (turn < 3 ? answers[turn] : "");
    if (text.size() <= 60) break;
  }
  CHECK(generate(m.model, m.tokenizer, text, options).text == answers[3]);
  const std::string said = test::error_of([&] { conversation.answer(std::string(80, 'x')); });
  CHECK(contains(said, "the context has room for 60"));
  CHECK(conversation.answer("fff").tokens > 0);  // the refused turn is gone
}

TEST_CASE("chat: a system text that the template leaves out is an error") {
  LoadedModel m = loaded(small_gpt(257, 200));
  const auto said = [&](const ChatTemplate& format, const std::string& system) {
    return test::error_of([&] { return Conversation(m, format, system, {.max_tokens = 4}), 0; });
  };
  CHECK(said(ChatTemplate::named("phi3"), "S") ==
        "--system would change nothing: this template leaves it out; say it in the first line");
  CHECK(said(ChatTemplate::named("phi3"), "") == "");
  CHECK(said(ChatTemplate::named("phi3.5"), "S") == "");
  CHECK(said(ChatTemplate(kTurns), "S") == "");
  // The same as the template's own default, which it replaces.
  CHECK(said(ChatTemplate("{% if messages[0].role != 'system' %}[system]S{% endif %}" +
                          std::string(kTurns)),
             "S") == "");
  CHECK(contains(said(ChatTemplate::named("gemma"), "S"), "System role not supported"));
}

TEST_CASE("chat: without a template the error lists the formats; with a name it is taken") {
  LoadedModel m = loaded(small_gpt(257, 64));
  const std::string said = test::error_of([&] { chat_template_of(m, ""); });
  CHECK(contains(said, "chatml"));
  CHECK(contains(said, "--template"));
  const std::vector<pretrained::Message> hello = {{"user", "hello"}};
  CHECK(chat_template_of(m, "chatml").render(hello) ==
        "<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n");
  m.chat.others = {"rag", "tools"};
  CHECK(contains(test::error_of([&] { chat_template_of(m, ""); }),
                 "the model has the chat templates rag, tools, but none that is called default"));
  m.chat.jinja = "{{ bos_token }}{{ messages[0].content }}";
  m.chat.begin = "<s>";
  CHECK(chat_template_of(m, "").render(hello) == "<s>hello");
  m.chat.jinja = "{{ pad_token }}{{ sep_token }}{{ bos_token }}";
  m.chat.further = {{"pad_token", "<pad>"}, {"sep_token", "<sep>"}};
  CHECK(chat_template_of(m, "").render(hello) == "<pad><sep><s>");
  m.chat.jinja = "{% if %}";
  CHECK_FALSE(test::error_of([&] { chat_template_of(m, ""); }).empty());
}

}  // namespace tern::apps::lm::test_chat
