// Fuzzes what GGUF files give: config.json, weights by name, tokenizer.json and the chat template.
#include "tern/pretrained/gguf_model.h"

#include "tern/core/ops/ops.h"
#include "tern/data/text/pretrained/pretrained_tokenizer.h"
#include "tern/pretrained/gguf_tokenizer.h"
#include "tern/tests/fuzz/fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  using namespace tern;
  const fuzz::File input(fuzz::text_of(bytes, size));
  fuzz::may_refuse_file([&] {
    const GgufFile file(input.path());
    fuzz::may_refuse_file([&] { pretrained::gguf_config(file); });
    fuzz::may_refuse_file([&] { pretrained::load_gguf_weights(file); });
    fuzz::may_refuse_file([&] { pretrained::gguf_chat(file); });
    fuzz::may_refuse_file([&] {
      const fuzz::File json(pretrained::gguf_tokenizer(file));
      const auto tokenizer = datasets::PretrainedTokenizer::load(json.path());
      tokenizer.decode(tokenizer.encode("ab <s> 12 \xc3\xa9"), true);
    });
  });
  return 0;
}
