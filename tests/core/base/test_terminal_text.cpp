// Text made safe for a terminal: control characters in any encoding become visible symbols.
#include <doctest/doctest.h>

#include "tern/core/base/terminal_text.h"
#include "tern/tests/support/temporary_stream.h"
#include "tern/train/progress.h"

namespace tern::test::test_terminal_text {
TEST_CASE("terminal text: control characters become symbols, everything else stays") {
  CHECK(terminal_text("") == "");
  CHECK(terminal_text("a\tb\nc \u00e9 \u00a0 \u20ac \U0001f600 \u200d") ==
        "a\tb\nc \u00e9 \u00a0 \u20ac \U0001f600 \u200d");
  CHECK(terminal_text("\x1b]0;title\x07\x1b[2J") == "\u241b]0;title\u2407\u241b[2J");
  CHECK(terminal_text(std::string("\0\r\x7f", 3)) == "\u2400\u240d\u2421");
  CHECK(terminal_text("\u0080\u009b31m\u009f\u00a0") == "\uFFFD\uFFFD31m\uFFFD\u00a0");
  // Invalid UTF-8: C1 control bytes are replaced, text in another encoding stays.
  CHECK(terminal_text("\x9b"
                      "31m") == "\uFFFD31m");
  CHECK(terminal_text("caf\xe9 \xff") == "caf\xe9 \xff");
  CHECK(terminal_text("\xe2\x9b") == "\xe2\uFFFD");  // cut off
  CHECK(terminal_text("\xe2\x9b"
                      "a") ==
        "\xe2\uFFFD"
        "a");
  CHECK(terminal_text("\xc2\x1b[m") == "\xc2\u241b[m");
  CHECK(terminal_text("\xc0\x9b") == "\xc0\uFFFD");          // overlong encoding
  CHECK(terminal_text("\xed\xa0\x80") == "\xed\xa0\uFFFD");  // a surrogate
}

TEST_CASE("terminal text: no pair of bytes leaves a control character") {
  for (int first = 0; first < 256; ++first)
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second)};
      const std::string shown = terminal_text(text);
      CAPTURE(first);
      CAPTURE(second);
      bool commands = false;
      for (size_t i = 0; i < shown.size(); ++i) {
        const auto c = static_cast<unsigned char>(shown[i]);
        commands =
            commands || (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f ||
            (c == 0xc2 && i + 1 < shown.size() && static_cast<unsigned char>(shown[i + 1]) < 0xa0 &&
             static_cast<unsigned char>(shown[i + 1]) >= 0x80);
      }
      CHECK_FALSE(commands);
      CHECK(terminal_text(shown) == shown);
    }
}

TEST_CASE("terminal text: the messages of training contain no control characters") {
  const TemporaryStream output;
  training::say("a \x1b[31mcat\x9b\r\n> un\tchat", output.get());
  CHECK(output.text() == "a \u241b[31mcat\uFFFD\u240d\n> un\tchat\n");
}

}  // namespace tern::test::test_terminal_text
