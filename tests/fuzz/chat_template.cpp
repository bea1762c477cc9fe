// Fuzzes chat templates: reading and running them.
#include "tern/pretrained/chat_template.h"

#include "tern/tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const std::vector<pretrained::Message> messages = {
      {"system", " Größe "}, {"user", "a <|im_end|>"}, {"assistant", "<think>x</think>\n"}};
  const std::vector<std::string> tokens = {"<|im_end|>", "<think>"};
  fuzz::may_refuse([&] {
    const pretrained::ChatTemplate chat(fuzz::text_of(bytes, size), {{"eos_token", "</s>"}});
    chat.ends();
    std::string text;
    for (const auto& piece : chat.pieces(messages, tokens)) text += piece.text;
    return text;
  });
  return 0;
}
