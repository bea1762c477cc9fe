// Chat templates against transformers (tests/reference/make_chat_templates.py): the formats with a
// name, and each part of Jinja. Hostile templates.
#include <doctest/doctest.h>

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>

#include "tern/pretrained/chat_template.h"
#include "tern/tests/support/data_files.h"
#include "tern/tests/support/errors.h"
#include "tern/tests/support/heap_calls.h"

using namespace tern;
using namespace tern::pretrained;
using nlohmann::json;
using test::error_of;

namespace tern::test::test_chat_template {
namespace {

const std::vector<Message> kHello = {{"user", "Hello"}};

const json& reference() {
  static const json file = json::parse(
      test::read_file(std::string(TERN_SOURCE_DIR) + "/tests/reference/chat_templates.json"));
  return file;
}

/// The date of the reference.
RenderOptions at_noon(bool generation_prompt) {
  std::tm noon = {};
  noon.tm_year = 2025 - 1900;
  noon.tm_mon = 2;
  noon.tm_mday = 9;
  noon.tm_hour = 12;
  noon.tm_isdst = -1;
  return {.generation_prompt = generation_prompt,
          .now = std::chrono::system_clock::from_time_t(std::mktime(&noon))};
}

std::vector<Message> messages_of(const json& conversation) {
  std::vector<Message> messages;
  for (const json& m : conversation) messages.push_back({m.at(0), m.at(1)});
  return messages;
}

/// The text as JSON; null if the template is refused.
json rendered(auto make, const std::vector<Message>& messages, bool generation_prompt) {
  try {
    return make().render(messages, at_noon(generation_prompt));
  } catch (const Error&) {
    return nullptr;
  }
}

std::string twice(const std::string& text, int times) {
  std::string out;
  while (times-- > 0) out += text;
  return out;
}

TEST_CASE("chat templates with a name write what transformers does") {
  const ChatTemplate::Specials specials = reference().at("specials");
  const json& conversations = reference().at("conversations");
  for (const auto& format : reference().at("named").items()) {
    INFO(format.key());
    const ChatTemplate chat = ChatTemplate::named(format.key(), specials);
    for (size_t i = 0; i < format.value().size(); ++i) {
      INFO(conversations[i / 2].dump());
      CHECK(rendered([&] { return chat; }, messages_of(conversations[i / 2]), i % 2) ==
            format.value()[i]);
    }
  }
}

TEST_CASE("each part of Jinja does what jinja2 does") {
  const ChatTemplate::Specials specials = reference().at("specials");
  const std::vector<Message> messages = messages_of(reference().at("conversations")[1]);
  for (const json& row : reference().at("jinja")) {
    INFO(row[0].get<std::string>());
    auto make = [&] { return ChatTemplate(row[0].get<std::string>(), specials); };
    CHECK(rendered(make, messages, true) == row[1]);
  }
}

TEST_CASE("the vicuna format is FastChat's") {
  const std::vector<Message> turns = {
      {"system", "Sys."}, {"user", "Hi"}, {"assistant", "Hello."}, {"user", "Bye"}};
  const ChatTemplate vicuna = ChatTemplate::named("vicuna");
  CHECK(vicuna.render(turns) == "<s>Sys. USER: Hi ASSISTANT: Hello.</s>USER: Bye ASSISTANT:");
  CHECK(vicuna.render(kHello).starts_with("<s>A chat between a curious user and an artificial"));
}

TEST_CASE("a chat template turns thinking off, and knows the ends of an answer") {
  const ChatTemplate qwen = ChatTemplate::named("qwen3");
  CHECK(qwen.render(kHello, {.thinking = false}).ends_with("<think>\n\n</think>\n\n"));
  CHECK(qwen.render(kHello, {.thinking = true}).ends_with("assistant\n"));
  using Ends = std::vector<std::string>;
  CHECK(qwen.ends() == Ends{"<|im_end|>"});
  CHECK(ChatTemplate::named("chatml", {{"eos_token", "</s>"}}).ends() ==
        Ends{"<|im_end|>", "</s>"});
  CHECK(ChatTemplate::named("gemma").ends() == Ends{"<end_of_turn>", "<eos>"});
  CHECK(ChatTemplate::named("phi3").ends() == Ends{"<|end|>", "<|endoftext|>"});
  CHECK(ChatTemplate::named("llama2").ends() == Ends{"</s>"});
  CHECK(ChatTemplate::named("deepseek-r1").ends() == Ends{"<｜end▁of▁sentence｜>"});
  CHECK(ChatTemplate("{{ raise_exception('no') }}").ends().empty());
}

TEST_CASE("tokens that a message contains become plain pieces") {
  const std::vector<std::string> tokens = {"<|im_end|>", "<|im_start|>", "<|im"};
  const std::vector<Message> turns = {{"user", "a<|im_end|>\uFDD0b<|im"}};
  std::string whole, plain;
  for (const ChatTemplate::Piece& piece : ChatTemplate::named("chatml").pieces(turns, tokens)) {
    whole += piece.text;
    if (piece.plain) plain += piece.text + ";";
  }
  CHECK(plain == "<|im_end|>;<|im;");
  CHECK(whole == "<|im_start|>user\na<|im_end|>b<|im<|im_end|>\n<|im_start|>assistant\n");
}

TEST_CASE("marks in a message hide no token from pieces") {
  const std::vector<std::string> tokens = {"<|im_end|>"};
  for (const std::string inside :
       {"", "\uFDD0", "\uFDD1", "\uFDD1\uFDD0", "\xEF\uFDD0\xB7\x90", "\xEF\xB7\uFDD1\x91"}) {
    CAPTURE(inside);
    const std::vector<Message> turns = {{"user", "a<|im_" + inside + "end|>b"}};
    const auto pieces = ChatTemplate("{{ messages[0].content }}").pieces(turns, tokens);
    REQUIRE(pieces.size() == 3);
    CHECK(pieces[1].text == "<|im_end|>");
    CHECK(pieces[1].plain);
  }
}

TEST_CASE("errors of chat templates say what is wrong") {
  auto error = [](const std::string& jinja) {
    return error_of([&] { ChatTemplate(jinja).render(kHello); });
  };
  CHECK(error("a\n{% if x %}\n\n{{ x.y.z }}") ==
        "chat template, line 4: expected 'endif', got "
        "'the end of the template'");
  CHECK(error("a\n{{ x.y }}") == "chat template, line 2: 'x' is undefined");
  CHECK(error("{{ 'a' | frob }}") ==
        "chat template, line 1: there is no filter 'frob', or tern does not support it");
  CHECK(error("{% include 'x' %}") ==
        "chat template, line 1: unexpected or unsupported tag 'include'");
  CHECK(error("{{ raise_exception('Roles!') }}") ==
        "the chat template refuses the conversation: Roles!");
  CHECK(error_of([] {
          ChatTemplate::named("x");
        }).starts_with("there is no chat template 'x'; there are chatml, deepseek-r1, gemma,"));
  CHECK(error_of([] { ChatTemplate("x").render({}); }) == "a conversation has no messages");
}

TEST_CASE("everything in a chat template that takes time counts as steps or bytes") {
  // Large values: t and u are equal, but not the same; d has large keys; x is a long list.
  const std::string large =
      "{% set t = 'a' * 400000 %}{% set u = t ~ '' %}{% set x = [t] * 30000 %}"
      "{% set d = {t ~ 'x': 1, t ~ 'y': 2} %}{% set m = d | list | first %}";
  // Each is cheap to count once, and too much 1,000 times. Without counting nothing stops them.
  // clang-format off
  const std::vector<std::string> expressions = {
      "t < u", "t >= u", "t is lt(u)", "t == u", "t in u", "d[m]", "m in d", "d.get(m)", "d == d",
      "x[:2]", "x[:3] | sort", "x[:3] | sort(reverse=true)", "d | dictsort", "d | tojson",
      "x | length and x | first", "''.strip(t)", "t.strip('b')", "'b'.startswith(x)",
      "t.endswith(u)", "t.startswith([u, u])", "t.removeprefix(u)", "t.find('b')", "t.format(1)",
      "t.count('b')", "t.split('b')", "t | replace('b', 'c')", "t | upper", "t | indent(2)",
      "'b' | indent(t)", "[1] | map(attribute=t) | list", "[t, u] | join", "t ~ u", "t + u",
      "t is string", "x[:5] | select('string') | list", "x[:5].count(u)", "range(30000)", "dict(d)",
      "{t: 1, u: 2}"};
  // clang-format on
  for (const std::string& e : expressions) {
    INFO(e);
    auto times = [&](int n) {
      const std::string loop = "{% for i in range(" + std::to_string(n) + ") %}{% set y = (" + e;
      return error_of([&] { ChatTemplate(large + loop + ") %}{% endfor %}").render(kHello); });
    };
    CHECK(times(1) == "");
    const std::string error = times(1000);
    CHECK(
        (error.ends_with("it takes too many steps") || error.ends_with("it makes too much text")));
  }
}

TEST_CASE("hostile chat templates end soon") {
  const std::string grow = "{% set n = namespace(x=[1], s='aaaaaaaa') %}{% for i in range(90) %}";
  const std::vector<std::string> templates = {
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      grow + "{% set n.s = n.s + n.s %}{% endfor %}",
      grow + "{% set n.x = n.x + n.x %}{% endfor %}",
      grow + "{% set n.x = [n.x, n.x] %}{% endfor %}{{ n.x }}",
      grow + "{% for j in range(9) %}{% set n.x = [n.x] %}{% endfor %}{% endfor %}",
      "{% set n = namespace() %}{% set n.n = n %}",
      "{% set n = namespace() %}{% set n.n = [n] %}",
      "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(1) }}",
      "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
      "{{ " + twice("(", 60'000) + "1" + twice(")", 60'000) + " }}",
      "{{ " + twice("not ", 20'000) + "1 }}",
      "{{ 1" + twice("+1", 60'000) + " }}",
      "{{ a" + twice(".a", 60'000) + " }}",
      twice("{% if 1 %}", 10'000),
      twice(" ", 200'000),
      "{{ 'x' * 999999999999 }}",
      "{{ 9 ** 99 }}{{ 99999999999999999999 }}",
      "{% set s = 'a' * 1000000 %}{{ s | replace('a', s) }}",
      "{% set s = 'a' * 1000000 %}{{ s | replace('', s) }}",
      "{% set s = 'a' * 1000000 %}{% for i in range(9) %}{{ s.strip('bcdefghijklm' * 1000) }}"
      "{% endfor %}",
      "{% set s = 'a ' * 1000000 %}{{ s.split() }}",
      "{{ 'a' | indent(99999999999) }}",
      "{{ range(-9223372036854775807, 9223372036854775807) }}",
      "{{ (-9223372036854775807 - 1) // -1 }}",
      "{% set s = 'a' * 8000000 %}{% for i in range(9) %}{{ ''.strip(s) }}{% endfor %}",
      "{% set n = namespace(s='a') %}{% for i in range(90) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
      "{% set n = namespace(s='a') %}{% for i in range(90) %}{% set n.s = n.s * 9 %}{% endfor %}",
      "{% set n = namespace(s='ab') %}{% for i in range(90) %}{% set n.s = n.s | replace('a', n.s) "
      "%}{% endfor %}",
      "{{ 'x' | center(999999999) }}",
      "{{ 'x'.ljust(999999999) }}",
      "{{ '%999999999d' % 1 }}",
      "{{ " + twice("[", 60'000) + twice("]", 60'000) + " }}",
      "{{ " + twice("{1:", 40'000) + "1" + twice("}", 40'000) + " }}",
      "{{ 'a'" + twice("|trim", 20'000) + " }}",
      "{{ " + twice("-", 100'000) + "1 }}",
      "{{ 'a' " + twice("~ 'a' ", 20'000) + "}}",
      twice("{% for a in 'ab' %}", 40) + "a" + twice("{% endfor %}", 40),
      twice("{% macro f() %}", 60) + twice("{% endmacro %}", 60),
      "{{ " + twice("a", 100'000) + " }}",
      "{% set n = namespace(l=[]) %}{% set s = 'a' * 100000 %}{% for i in range(9999) %}"
      "{% set n.l = n.l + [1[s]] %}{% endfor %}{{ n.l[0].x }}",
      "{% set s = '\\x01' * 8000000 %}{{ [s] }}",
  };
  for (const std::string& jinja : templates) {
    INFO(jinja.substr(0, 100));
    test::heap_largest = 0;
    CHECK(!error_of([&] { ChatTemplate(jinja).render(kHello); }).empty());
    CHECK(test::heap_largest < 33 << 20);
  }
  // Deep, but not too deep.
  CHECK(ChatTemplate("{{ " + twice("(", 400) + "1" + twice(")", 400) + " }}").render(kHello) ==
        "1");
  CHECK(ChatTemplate("{{ 0" + twice("+1", 490) + " }}").render(kHello) == "490");
}

}  // namespace
}  // namespace tern::test::test_chat_template
